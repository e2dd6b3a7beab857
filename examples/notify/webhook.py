"""unhang run --on-hang-exec 'python webhook.py https://…' -- …: posts the message and the short facts as JSON."""

import sys

from message import lines_of, post, read_verdict

verdict = read_verdict()
first = verdict["findings"][0] if verdict["findings"] else {}
facts = {key: first.get(key) for key in ("cause", "certainty", "ranks")}
sys.exit(post(sys.argv[1], {"text": "\n".join(lines_of(verdict)), "status": verdict["status"], **facts}))
