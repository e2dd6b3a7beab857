$LAUNCH t.py  # finds: $LAUNCH: LAUNCH is not set here
