"""What is known of network devices, file systems and the NVIDIA driver's Xids."""
