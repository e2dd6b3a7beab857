"""To DingTalk at a stall.

unhang run --lang zh --on-hang-exec 'python dingtalk.py "$DINGTALK_WEBHOOK" "$DINGTALK_SECRET"' -- …

Custom robots: https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages (the secret is needed where
the robot verifies signatures; leave it out otherwise).
"""

import base64
import hashlib
import hmac
import sys
import time
import urllib.parse

from message import lines_of, post, read_verdict

url = sys.argv[1]
if len(sys.argv) > 2 and sys.argv[2]:
    stamp, secret = str(round(time.time() * 1000)), sys.argv[2]
    signed = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256).digest()
    url += f"&timestamp={stamp}&sign={urllib.parse.quote_plus(base64.b64encode(signed))}"
sys.exit(post(url, {"msgtype": "text", "text": {"content": "\n".join(["unhang", *lines_of(read_verdict())])}}))
