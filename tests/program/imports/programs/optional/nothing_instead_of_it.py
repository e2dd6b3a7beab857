import gone  # finds: absent gone
