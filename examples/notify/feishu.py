"""To Feishu at a stall.

unhang run --lang zh --on-hang-exec 'python feishu.py "$FEISHU_WEBHOOK" "$FEISHU_SECRET"' -- …

Custom bots: https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot (the secret is needed where the bot
verifies signatures; leave it out otherwise).
"""

import base64
import hashlib
import hmac
import sys
import time

from message import lines_of, post, read_verdict

body: dict = {"msg_type": "text", "content": {"text": "\n".join(lines_of(read_verdict()))}}
if len(sys.argv) > 2 and sys.argv[2]:
    stamp = str(int(time.time()))
    signed = hmac.new(f"{stamp}\n{sys.argv[2]}".encode(), b"", hashlib.sha256).digest()
    body |= {"timestamp": stamp, "sign": base64.b64encode(signed).decode()}
sys.exit(post(sys.argv[1], body))
