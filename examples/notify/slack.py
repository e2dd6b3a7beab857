"""To Slack at a stall.

unhang run --on-hang-exec 'python slack.py "$SLACK_WEBHOOK"' -- …

Incoming webhooks: https://api.slack.com/messaging/webhooks
"""

import sys

from message import lines_of, post, read_verdict


def escaped(text: str) -> str:
    """As Slack wants it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


lines = [escaped(line) for line in lines_of(read_verdict())]
sys.exit(post(sys.argv[1], {"text": "\n".join([f"*{lines[0]}*", *lines[1:]])}))
