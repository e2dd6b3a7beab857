"""Kinds of secrets, each as somebody's log, command or configuration shows it, to be filled with one made up now.

Made from other rules than those that remove them: the detectors of TruffleHog and of detect-secrets, and what people
type and print. ``<<…>>`` is the secret: letters that stand for themselves and ``[class]{count}``. Nothing in this file
looks like a secret, so that no scanner of repositories takes it for one.
"""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass
from pathlib import Path

_SECRET = re.compile(r"<<(.+?)>>", re.DOTALL)
_PIECE = re.compile(r"\[(?P<letters>[^\]]+)\]\{(?P<count>\d+)\}|(?P<plain>.)", re.DOTALL)
_SPANS = {
    "a-z": string.ascii_lowercase,
    "A-Z": string.ascii_uppercase,
    "0-9": string.digits,
    "a-f": "abcdef",
    "A-F": "ABCDEF",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A text with secrets in it."""

    kind: str
    text: str
    secrets: tuple[str, ...]


def filled(kind: str, template: str, chance: random.Random) -> Shown:
    """``template`` with secrets made up by ``chance``."""
    secrets: list[str] = []

    def made(match: re.Match[str]) -> str:
        secrets.append(_made(match[1], chance))
        return secrets[-1]

    return Shown(kind, _SECRET.sub(made, template), tuple(secrets))


def _made(spec: str, chance: random.Random) -> str:
    pieces = (_piece(match, chance) for match in _PIECE.finditer(spec))
    return "".join(pieces)


def _piece(match: re.Match[str], chance: random.Random) -> str:
    if match["plain"]:
        return match["plain"]
    letters = match["letters"]
    for span, standing_for in _SPANS.items():
        letters = letters.replace(span, standing_for)
    return "".join(chance.choice(letters) for _ in range(int(match["count"])))


def all_kinds(seed: int) -> list[Shown]:
    """Every kind once, filled."""
    chance = random.Random(seed)
    return [filled(kind, template, chance) for kind, template in KINDS.items()]


_HEX_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_DETECT_SECRETS = {
    "ds artifactory api": "pip config: index AKC token in use <<AKC[A-Za-z0-9]{64}>>",
    "ds artifactory encrypted": "artifactory login with <<AP6[A-Za-z0-9]{40}>> failed",
    "ds aws id": "botocore: credentials <<AKIA[0-9A-Z]{16}>> found in environment",
    "ds aws secret": "aws_secret_access_key = <<[A-Za-z0-9/+]{40}>>",
    "ds azure storage": "AccountName=runs;AccountKey=<<[A-Za-z0-9/+]{86}==>>;EndpointSuffix=core.windows.net",
    "ds basic auth": "fetching https://trainer:<<[a-zA-Z0-9]{12}>>@data.example.org/shards/0001.tar",
    "ds cloudant": "cloudant_password = '<<[0-9a-f]{64}>>'",
    "ds cloudant url": "https://acct:<<[0-9a-f]{64}>>@acct.cloudant.com",
    "ds discord bot": "logging in with bot <<[MNO]{1}[a-zA-Z0-9_-]{23}.[a-zA-Z0-9_-]{6}.[a-zA-Z0-9_-]{27}>>",
    "ds github": "remote: <<ghp_[A-Za-z0-9]{36}>> has expired",
    "ds gitlab pat": "git push with <<glpat-[A-Za-z0-9_-]{20}>>",
    "ds gitlab runner": "registering runner <<GR1348941[A-Za-z0-9_-]{20}>>",
    "ds gitlab trigger": "trigger <<glptt-[0-9a-f]{40}>> was used",
    "ds high entropy base64": 'key = "<<[A-Za-z0-9/+]{43}=>>"',
    "ds high entropy hex": "signing_secret: '<<[0-9a-f]{64}>>'",
    "ds ibm iam": "ibm_cloud_api_key=<<[a-zA-Z0-9_-]{44}>>",
    "ds ibm cos": "cos_hmac_secret_key: <<[a-f0-9]{48}>>",
    "ds jwt": "sent <<eyJ[A-Za-z0-9]{33}.eyJ[A-Za-z0-9]{60}.[A-Za-z0-9_-]{43}>> got 401",
    "ds keyword": "db_pass = '<<[a-z]{5}[A-Z]{2}[0-9]{3}>>'",
    "ds keyword pwd": "pwd: <<[a-z]{6}[0-9]{4}>>",
    "ds mailchimp": "mail goes out with <<[0-9a-z]{32}-us14>>",
    "ds npm": "//registry.npmjs.org/:_authToken=<<npm_[A-Za-z0-9]{36}>>",
    "ds npm uuid": f"//npm.corp.example/:_authToken=<<{_HEX_UUID}>>",
    "ds openai": "openai: Incorrect API key provided: <<sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}>>.",
    "ds private key": "-----BEGIN OPENSSH PRIVATE KEY-----\n<<[A-Za-z0-9+/]{70}>>\n<<[A-Za-z0-9+/]{70}>>\n"
    "-----END OPENSSH PRIVATE KEY-----",
    "ds pypi": "twine upload -u __token__ -p <<pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{70}>>",
    "ds sendgrid": "using <<SG.[a-zA-Z0-9_-]{22}.[a-zA-Z0-9_-]{43}>> to mail the report",
    "ds slack bot": "slack_sdk: invalid_auth <<xoxb-[0-9]{12}-[0-9]{12}-[a-zA-Z0-9]{24}>>",
    "ds slack hook": "posting to https://hooks.slack.com/services/<<T[A-Z0-9]{8}/B[A-Z0-9]{8}/[A-Za-z0-9]{24}>>",
    "ds softlayer": "softlayer_api_key='<<[a-z0-9]{64}>>'",
    "ds square oauth": "square: <<sq0csp-[0-9A-Za-z_-]{43}>>",
    "ds stripe": "charged through <<sk_live_[0-9a-zA-Z]{24}>>",
    "ds telegram": "https://api.telegram.org/bot<<[0-9]{10}:[0-9A-Za-z_-]{35}>>/sendMessage",
    "ds twilio": "twilio: sid <<SK[a-z0-9]{32}>> refused",
}

_TRUFFLEHOG = {
    "th adafruit": "ADAFRUIT <<aio_[a-zA-Z0-9]{28}>>",
    "th airtable pat": "airtable upload with <<pat[A-Za-z0-9]{14}.[a-f0-9]{64}>>",
    "th algolia": "algolia admin key: <<[a-zA-Z0-9]{32}>>",
    "th alibaba id": "oss2.exceptions.AccessDenied: {'AccessKeyId': '<<LTAI[a-zA-Z0-9]{20}>>'}",
    "th alibaba secret": "ALIBABA_CLOUD_ACCESS_KEY_SECRET=<<[a-zA-Z0-9]{30}>>",
    "th anthropic": "client = Anthropic(api_key='<<sk-ant-api03-[A-Za-z0-9_-]{93}AA>>')",
    "th apify": "scraper key <<apify_api_[a-zA-Z0-9]{36}>>",
    "th artifactory reference": "jfrog reference <<cmVmdGtu[A-Za-z0-9]{56}>>",
    "th asana": "asana token=<<1/[0-9]{16}:[a-z0-9]{32}>>",
    "th atlassian": "jira basic <<ATATT3xFfGF0[A-Za-z0-9_-]{60}=[A-F0-9]{8}>>",
    "th auth0": "auth0 client_secret: <<[a-zA-Z0-9_-]{64}>>",
    "th aws session": "session started with <<ASIA[A-Z0-9]{16}>>",
    "th aws session token": "AWS_SESSION_TOKEN=<<[a-zA-Z0-9/+]{140}>>",
    "th azure ad": "AZURE_CLIENT_SECRET=<<[a-zA-Z0-9_~.]{3}8Q~[a-zA-Z0-9_~.]{34}>>",
    "th azure app config": "Endpoint=https://conf.azconfig.io;Id=ab12;Secret=<<[A-Za-z0-9+/]{43}=>>",
    "th azure batch": "https://acct.westeurope.batch.azure.com with key <<[A-Za-z0-9+/]{86}==>>",
    "th azure registry": "azurecr.io password <<[a-zA-Z0-9+/]{42}+ACR[a-zA-Z0-9]{6}>>",
    "th azure cosmos": "https://runs.documents.azure.com:443/ <<[A-Za-z0-9]{86}==>>",
    "th azure devops": "AZURE_DEVOPS_EXT_PAT=<<[0-9a-z]{52}>>",
    "th azure openai": "AZURE_OPENAI_API_KEY=<<[a-f0-9]{32}>>",
    "th azure sas": "https://acct.blob.core.windows.net/ckpt/step.pt?sv=2022-11-02&sr=b&sp=rl&sig=<<[A-Za-z0-9%]{44}>>",
    "th azure function": "https://jobs.azurewebsites.net/api/notify?code=<<[a-zA-Z0-9_-]{54}==>>",
    "th bannerbear": "BANNERBEAR <<bb_pr_[a-f0-9]{30}>>",
    "th bitbucket": "git clone https://me:<<ATBB[A-Za-z0-9]{32}>>@bitbucket.org/me/repo",
    "th buildkite": "agent with <<bkua_[a-z0-9]{40}>>",
    "th circleci": "CI: <<CCIPAT_[a-zA-Z0-9]{22}_[a-f0-9]{40}>>",
    "th close": "crm <<api_[a-zA-Z0-9]{45}>>",
    "th cloudflare": "CLOUDFLARE_API_TOKEN=<<[A-Za-z0-9_-]{40}>>",
    "th cloudflare ca": "origin ca <<v1.0-[a-f0-9]{24}-[a-f0-9]{146}>>",
    "th cloudflare key": "tunnel <<cfut_[a-zA-Z0-9]{40}[a-f0-9]{8}>>",
    "th confluent": "confluent secret: <<[a-zA-Z0-9+/]{64}>>",
    "th contentful": "content from <<CFPAT-[a-zA-Z0-9_-]{43}>>",
    "th databricks": "databricks host with <<dapi[0-9a-f]{32}>>",
    "th datadog": "DD_API_KEY=<<[a-f0-9]{32}>>",
    "th datadog app": "DATADOG_APP_KEY: <<[a-f0-9]{40}>>",
    "th deepseek": "deepseek <<sk-[a-z0-9]{32}>> has no credit",
    "th deno": "deploy <<ddp_[a-zA-Z0-9]{36}>>",
    "th digitalocean": "spaces <<dop_v1_[a-f0-9]{64}>>",
    "th discord hook": "https://discord.com/api/webhooks/<<[0-9]{18}/[0-9a-zA-Z-]{68}>>",
    "th docker auth": '{"auths": {"registry.example.com": {"auth": "<<[A-Za-z0-9+/]{30}==>>"}}}',
    "th docker pat": "docker login -u me -p <<dckr_pat_[a-zA-Z0-9_-]{27}>>",
    "th doppler": "doppler run with <<dp.pt.[a-zA-Z0-9]{43}>>",
    "th dropbox": "dropbox: <<sl.u.[A-Za-z0-9_-]{140}>> expired",
    "th elevenlabs": "xi-api-key: <<[a-f0-9]{32}>>",
    "th facebook": "facebook app secret = <<[a-f0-9]{32}>>",
    "th fastly": "FASTLY_API_TOKEN=<<[A-Za-z0-9_-]{32}>>",
    "th figma": "figma <<figd_[a-zA-Z0-9_-]{40}>>",
    "th flutterwave": "pay <<FLWSECK-[0-9a-z]{32}-X>>",
    "th flyio": "fly <<FlyV1 fm2_[A-Za-z0-9+/]{500}>>",
    "th frameio": "frames <<fio-u-[0-9a-zA-Z_-]{64}>>",
    "th ftp": "wget ftp://data:<<[a-z]{6}[0-9]{4}>>@ftp.example.org/train.tar",
    "th gcp service account": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n'
    '<<[A-Za-z0-9+/]{64}>>\\n<<[A-Za-z0-9+/]{40}>>==\\n-----END PRIVATE KEY-----\\n"}',
    "th gcp adc": '{"client_id": "7640.apps.googleusercontent.com", "client_secret": "<<d-FL95Q[a-zA-Z0-9]{17}>>"}',
    "th github fine": "401 for <<github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}>>",
    "th github server": "checkout used <<ghs_[A-Za-z0-9]{36}>>",
    "th gitlab oauth": "app <<gloas-[0-9a-f]{64}>>",
    "th google api": "https://maps.example.com/x?key=<<AIzaSy[A-Za-z0-9_-]{33}>>",
    "th google oauth": "gcsfs: <<ya29.[A-Za-z0-9_-]{120}>> is no longer valid",
    "th grafana cloud": "push to grafana with <<glc_eyJ[A-Za-z0-9+/]{90}>>",
    "th grafana service": "grafana <<glsa_[0-9a-zA-Z]{32}_[0-9a-f]{8}>>",
    "th groq": "groq client <<gsk_[a-zA-Z0-9]{52}>>",
    "th vault": "VAULT_TOKEN=<<hvs.[A-Za-z0-9_-]{90}>>",
    "th vault batch": "vault: <<hvb.[A-Za-z0-9_-]{140}>> denied",
    "th heroku": "heroku <<HRKU-AA[0-9a-zA-Z_-]{58}>>",
    "th heroku uuid": f"HEROKU_API_KEY=<<{_HEX_UUID}>>",
    "th hubspot": f"crm <<pat-eu1-{_HEX_UUID}>>",
    "th huggingface": "huggingface_hub.errors.HfHubHTTPError: 403 for <<hf_[a-zA-Z0-9]{34}>>",
    "th huggingface org": "token is <<api_org_[a-zA-Z0-9]{34}>>",
    "th honeycomb": "x-honeycomb-team: <<[0-9a-zA-Z]{22}>>",
    "th jdbc": "jdbc:postgresql://db:5432/runs?user=me&password=<<[a-z]{6}[0-9]{4}>>",
    "th langfuse": f"langfuse <<sk-lf-{_HEX_UUID}>>",
    "th langsmith": "tracing with <<lsv2_pt_[a-f0-9]{32}_[a-f0-9]{10}>>",
    "th lark app": "lark app_secret=<<[a-zA-Z0-9]{32}>>",
    "th launchdarkly": "flags <<sdk-[a-f0-9]{8}-[a-f0-9]{4}-4[a-f0-9]{3}-[a-f0-9]{4}-[a-f0-9]{12}>>",
    "th ldap": "ldap bind ldap://cn=admin:<<[a-z]{6}[0-9]{4}>>@ldap.example.org",
    "th linear": "tickets <<lin_api_[0-9A-Za-z]{40}>>",
    "th loggly": f"loggly token: <<{_HEX_UUID}>>",
    "th mailgun": "mail with <<key-[a-z0-9]{32}>>",
    "th mailgun new": "mailgun <<[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8}>>",
    "th mapbox": "tiles <<sk.eyJ1[A-Za-z0-9]{76}.[A-Za-z0-9_-]{22}>>",
    "th maxmind": "geoip <<[a-zA-Z0-9]{6}_[a-zA-Z0-9]{29}_mmk>>",
    "th teams hook": "https://corp.webhook.office.com/webhookb2/"
    f"<<{_HEX_UUID}@{_HEX_UUID}/IncomingWebhook/[a-f0-9]{{32}}/{_HEX_UUID}>>",
    "th mongodb": "mongodb+srv://sacred:<<[a-zA-Z0-9]{14}>>@cluster0.example.mongodb.net/runs?retryWrites=true",
    "th netlify": "netlify <<nfp_[a-zA-Z0-9]{36}>>",
    "th new relic user": "newrelic <<NRAK-[A-Z0-9]{27}>>",
    "th new relic license": "NEW_RELIC_LICENSE_KEY=<<[0-9a-f]{32}FFFFNRAL>>",
    "th ngc": "docker login nvcr.io with <<[A-Za-z0-9]{84}>>",
    "th ngrok": "ngrok authtoken <<2[a-zA-Z0-9]{26}_5[a-zA-Z0-9]{20}>>",
    "th notion": "notion <<secret_[A-Za-z0-9]{43}>>",
    "th nvapi": "NIM answered 401 to <<nvapi-[a-zA-Z0-9_-]{64}>>",
    "th okta": "okta token <<00[a-zA-Z0-9_-]{40}>>",
    "th openai project": "openai <<sk-proj-[A-Za-z0-9_-]{58}T3BlbkFJ[A-Za-z0-9_-]{58}>>",
    "th openrouter": "openrouter <<sk-or-v1-[0-9a-f]{64}>>",
    "th opsgenie": f"opsgenie api key {'<<' + _HEX_UUID + '>>'}",
    "th pagerduty": "pagerduty token: <<u+[a-zA-Z0-9_]{18}>>",
    "th pinecone": "pinecone <<pcsk_[A-Za-z0-9]{5}_[A-Za-z0-9]{63}>>",
    "th planetscale": "<<pscale_tkn_[A-Za-z0-9_]{43}>>",
    "th planetscale db": "mysql user root <<pscale_pw_[A-Za-z0-9_]{43}>>",
    "th posthog": "events <<phx_[a-zA-Z0-9]{43}>>",
    "th postgres": "postgresql://mlflow:<<[a-zA-Z0-9]{12}>>@10.0.0.5:5432/mlflow",
    "th postman": "postman <<PMAK-[a-f0-9]{24}-[a-f0-9]{34}>>",
    "th prefect": "prefect cloud login -k <<pnu_[a-zA-Z0-9]{36}>>",
    "th pulumi": "pulumi <<pul-[a-z0-9]{40}>>",
    "th rabbitmq": "amqp://queue:<<[a-zA-Z0-9]{12}>>@mq.example.org:5672/",
    "th redis": "redis.exceptions.AuthenticationError: redis://:<<[a-zA-Z0-9]{12}>>@cache:6379/0",
    "th redis azure": "runs.redis.cache.windows.net:6380,password=<<[A-Za-z0-9+/]{43}=>>,ssl=True",
    "th replicate": "replicate <<r8_[0-9A-Za-z]{37}>>",
    "th rootly": "rootly <<rootly_[a-f0-9]{64}>>",
    "th rubygems": "gem push <<rubygems_[a-f0-9]{48}>>",
    "th salesforce": "salesforce <<00D[a-zA-Z0-9]{12}![a-zA-Z0-9_.]{96}>>",
    "th sendinblue": "brevo <<xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}>>",
    "th sentry dsn": "sentry_sdk.init('https://<<[0-9a-f]{32}>>@o12.ingest.sentry.io/34')",
    "th sentry user": "sentry-cli <<sntryu_[a-f0-9]{64}>>",
    "th shopify": "shop <<shpat_[0-9a-f]{32}>>",
    "th slack user": "<<xoxp-[0-9]{12}-[0-9]{12}-[0-9]{12}-[a-f0-9]{32}>> revoked",
    "th slack app": "socket mode <<xapp-1-A[A-Z0-9]{10}-[0-9]{13}-[a-f0-9]{64}>>",
    "th snyk": f"SNYK_TOKEN=<<{_HEX_UUID}>>",
    "th sonar": "sonar.login=<<[0-9a-f]{40}>>",
    "th sourcegraph": "src <<sgp_[a-f0-9]{40}>>",
    "th sqlserver": "Server=db;Database=runs;User Id=sa;Password=<<[a-zA-Z]{6}[0-9]{3}!x>>;",
    "th stripe restricted": "<<rk_live_[a-zA-Z0-9]{40}>>",
    "th supabase": "supabase <<sbp_[a-f0-9]{40}>>",
    "th tailscale": "tailscale up --authkey <<tskey-auth-[0-9A-Za-z]{12}-[0-9A-Za-z]{32}>>",
    "th terraform": "app.terraform.io <<[A-Za-z0-9]{14}.atlasv1.[A-Za-z0-9]{67}>>",
    "th travis": "travis token: <<[a-zA-Z0-9_]{22}>>",
    "th trello": "trello key=<<[a-f0-9]{32}>>",
    "th twilio token": "TWILIO_AUTH_TOKEN=<<[0-9a-f]{32}>>",
    "th twitter": "twitter consumer_secret=<<[a-zA-Z0-9]{50}>>",
    "th typeform": "typeform <<tfp_[a-zA-Z0-9]{44}_[a-zA-Z0-9]{14}>>",
    "th vultr": "VULTR_API_KEY=<<[A-Z0-9]{36}>>",
    "th wandb": "wandb: using key <<[0-9a-f]{40}>>",
    "th xai": "grok <<xai-[0-9a-zA-Z]{80}>>",
    "th zapier": "https://hooks.zapier.com/hooks/catch/<<[0-9]{7}/[a-z0-9]{7}>>/",
}

_EVERYDAY = {
    "wandb login": "wandb login <<[0-9a-f]{40}>>",
    "wandb login relogin": "wandb login --relogin --host=https://wb.example.org <<[0-9a-f]{40}>>",
    "wandb call": 'wandb.login(key="<<[0-9a-f]{40}>>")',
    "netrc one line": "machine api.wandb.ai login user password <<[0-9a-f]{40}>>",
    "netrc lines": "machine data.example.org\n  login me\n  password <<[a-z]{6}[0-9]{3}>>",
    "hf login": "huggingface-cli login --token <<hf_[A-Za-z]{34}>>",
    "hf auth": "hf auth login --token=<<hf_[A-Za-z]{34}>> --add-to-git-credential",
    "mysql -p": "mysql -h db -u root -p<<[a-z]{6}[0-9]{3}>> runs",
    "mysql --password": "mysqldump --password=<<[a-z]{6}[0-9]{3}>> runs",
    "sshpass": "sshpass -p <<[a-z]{6}[0-9]{3}>> ssh worker1 nvidia-smi",
    "sshpass joined": "sshpass -p'<<[a-z]{6}[0-9]{3}>>' scp a b:/tmp",
    "curl -u": "curl -u me:<<[a-z]{6}[0-9]{3}>> https://api.example.org/v1",
    "curl --user": "curl --user 'me:<<[a-z]{6}[0-9]{3}>>' -X POST https://api.example.org",
    "curl header": "curl -H 'Authorization: token <<[0-9a-z]{24}>>' https://api.example.org",
    "curl api key header": 'curl -H "X-API-Key: <<[0-9a-z]{20}>>" https://api.example.org',
    "wget password": "wget --user=me --password=<<[a-z]{6}[0-9]{3}>> https://data.example.org/x.tar",
    "docker login": "docker login -u me -p <<[a-z]{6}[0-9]{3}>> registry.example.com",
    "docker env": "docker run -e DB_PASS=<<[a-z]{6}[0-9]{3}>> -e RANK=0 image",
    "redis-cli": "redis-cli -h cache -a <<[a-z]{6}[0-9]{3}>> ping",
    "psql env": "PGPASSWORD=<<[a-z]{6}[0-9]{3}>> psql -h db",
    "pgpass": "db.example.org:5432:runs:me:<<[a-z]{6}[0-9]{3}>>",
    "ldapsearch": "ldapsearch -D cn=admin -w <<[a-z]{6}[0-9]{3}>> -b dc=example",
    "smbclient": "smbclient //nas/share -U me%<<[a-z]{6}[0-9]{3}>>",
    "mount cifs": "mount -t cifs -o username=me,password=<<[a-z]{6}[0-9]{3}>> //nas/share /mnt",
    "openssl pass": "openssl enc -d -aes-256-cbc -pass pass:<<[a-z]{6}[0-9]{3}>> -in x",
    "zip password": "unzip -P <<[a-z]{6}[0-9]{3}>> data.zip",
    "7z password": "7z x -p<<[a-z]{6}[0-9]{3}>> data.7z",
    "sudo echo": "echo '<<[a-z]{6}[0-9]{3}>>' | sudo -S systemctl restart slurmd",
    "git credential": "https://me:<<[A-Za-z0-9]{20}>>@git.example.org",
    "git extra header": "git -c http.extraHeader='Authorization: Basic <<[A-Za-z0-9+/]{32}==>>' fetch",
    "svn password": "svn co --username me --password <<[a-z]{6}[0-9]{3}>> svn://x",
    "pip index": "pip install --extra-index-url https://__token__:<<[A-Za-z0-9]{30}>>@pypi.example.org/simple x",
    "s3 options": 'storage_options={"key": "abc", "secret": "<<[A-Za-z0-9+/]{40}>>"}',
    "aws configure": "aws configure set aws_secret_access_key <<[A-Za-z0-9+/]{40}>>",
    "kubectl secret": "kubectl create secret generic wb --from-literal=api-key=<<[0-9a-f]{40}>>",
    "kubectl token": "kubectl --token <<[A-Za-z0-9]{40}>> get pods",
    "helm set": "helm install x --set auth.password=<<[a-z]{6}[0-9]{3}>>",
    "env pass": "SMTP_PASS=<<[a-z]{6}[0-9]{3}>>",
    "env pwd": "export DB_PWD='<<[a-z]{6}[0-9]{3}>>'",
    "env passwd": "RSYNC_PASSWD=<<[a-z]{6}[0-9]{3}>>",
    "env pat": "GIT_PAT=<<[A-Za-z0-9]{30}>>",
    "env auth": "NPM_AUTH=<<[A-Za-z0-9+/]{32}>>",
    "env short key": "MINIO_ROOT_PASSWORD=<<[a-z]{4}[0-9]{4}>>",
    "env cookie": "JUPYTER_COOKIE=<<[a-z0-9]{30}>>",
    "jupyter": "http://127.0.0.1:8888/lab?token=<<[0-9a-f]{48}>>",
    "cookie header": "Cookie: sessionid=<<[a-z0-9]{32}>>; csrftoken=<<[A-Za-z0-9]{32}>>",
    "set-cookie": "Set-Cookie: auth=<<[A-Za-z0-9]{30}>>; Path=/; HttpOnly",
    "cookies dict": "requests.get(url, cookies={'session': '<<[a-z0-9]{32}>>'})",
    "headers dict": "headers={'Authorization': 'Bearer <<[A-Za-z0-9_-]{30}>>', 'Accept': '*/*'}",
    "proxy auth": "Proxy-Authorization: Basic <<[A-Za-z0-9+/]{22}==>>",
    "private token header": "PRIVATE-TOKEN: <<[A-Za-z0-9_-]{20}>>",
    "requests auth": "requests.get(url, auth=('me', '<<[a-z]{6}[0-9]{3}>>'))",
    "yaml password": "database:\n  user: me\n  password: <<[a-z]{6}[0-9]{3}>>",
    "yaml nested": 'secrets:\n  - name: api_key\n    value: "<<[A-Za-z0-9]{30}>>"',
    "json password": '{"user": "me", "password": "<<[a-z]{6} [a-z]{4} [0-9]{3}>>"}',
    "json escaped": '"{\\"api_key\\": \\"<<[A-Za-z0-9]{24}>>\\"}"',
    "ini": "[smtp]\nuser = me\npasswd = <<[a-z]{6}[0-9]{3}>>",
    "toml": 'access_token = "<<[A-Za-z0-9]{30}>>"',
    "xml": "<password><<[a-z]{6}[0-9]{3}>></password>",
    "python repr": "Config(lr=0.1, hf_token='<<[A-Za-z0-9]{20}>>', steps=10)",
    "argparse repr": "Namespace(api_key='<<[A-Za-z0-9]{20}>>', lr=0.1)",
    "argv list": "['train.py', '--api-key', '<<[A-Za-z0-9]{20}>>', '--lr', '3e-4']",
    "hydra": "+logger.wandb.api_key=<<[0-9a-f]{40}>>",
    "exception sentence": "RuntimeError: login failed for user me with password <<[a-z]{6}[0-9]{3}>>",
    "exception sentence is": "ValueError: the password is '<<[a-z]{6}[0-9]{3}>>', which is too weak",
    "exception quoted": 'PermissionError: token "<<[A-Za-z0-9]{24}>>" is not valid',
    "python assert": "AssertionError: key <<[A-Za-z0-9]{8}-[A-Za-z0-9]{24}>> rejected, api_key=<<[A-Za-z0-9]{20}>>",
    "zh password": "密码：<<[a-z]{6}[0-9]{3}>>",
    "zh password is": "登录失败，密码是 <<[a-z]{6}[0-9]{3}>>",
    "zh key": "密钥: <<[A-Za-z0-9]{24}>>",
    "zh token": "令牌=<<[A-Za-z0-9]{24}>>",
    "zh access key": "访问密钥：<<[A-Za-z0-9]{30}>>",
    "zh pass word 2": "口令:<<[a-z]{6}[0-9]{3}>>",
    "aliyun secret": "accessKeySecret: <<[A-Za-z0-9]{30}>>",
    "tencent id": "TENCENTCLOUD_SECRET_ID=<<AKID[A-Za-z0-9]{32}>>",
    "tencent shown": "cos: <<AKID[A-Za-z0-9]{32}>> has no right to the bucket",
    "huawei": "OBS ak/sk: HWAK<<[A-Z0-9]{20}>> sk=<<[A-Za-z0-9]{40}>>",
    "volcengine": "VOLC_SECRETKEY=<<[A-Za-z0-9]{58}==>>",
    "feishu hook": "https://open.feishu.cn/open-apis/bot/v2/hook/" + f"<<{_HEX_UUID}>>",
    "dingtalk hook": "https://oapi.dingtalk.com/robot/send?access_token=<<[a-f0-9]{64}>>",
    "wecom hook": f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=<<{_HEX_UUID}>>",
    "serverchan": "https://sctapi.ftqq.com/<<SCT[0-9]{6}T[A-Za-z0-9]{25}>>.send",
    "bark": "pushplus token=<<[a-f0-9]{32}>>",
    "modelscope": "modelscope login --token <<ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}>>",
    "swanlab": "swanlab login --api-key <<[A-Za-z0-9]{21}>>",
    "comet": "comet_ml.init(api_key='<<[A-Za-z0-9]{25}>>')",
    "neptune": "NEPTUNE_API_TOKEN=<<[A-Za-z0-9]{100}==>>",
    "clearml": "CLEARML_API_SECRET_KEY=<<[A-Za-z0-9]{50}>>",
    "kaggle": '{"username":"me","key":"<<[0-9a-f]{32}>>"}',
    "s3 presigned": "https://b.s3.amazonaws.com/x?X-Amz-Credential=<<AKIA[A-Z0-9]{16}>>%2F20260101"
    "&X-Amz-Security-Token=<<[A-Za-z0-9%]{90}>>&X-Amz-Signature=<<[0-9a-f]{64}>>",
    "gcs signed": "https://storage.googleapis.com/b/x?X-Goog-Signature=<<[0-9a-f]{128}>>&X-Goog-Expires=60",
    "oss signed": "http://b.oss-cn-beijing.aliyuncs.com/x?Expires=1&OSSAccessKeyId=<<LTAI[A-Za-z0-9]{20}>>"
    "&Signature=<<[A-Za-z0-9%]{30}>>",
    "ssh key": "-----BEGIN RSA PRIVATE KEY-----\n<<[A-Za-z0-9+/]{64}>>\n<<[A-Za-z0-9+/]{64}>>\n"
    "-----END RSA PRIVATE KEY-----",
    "pgp key": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n<<[A-Za-z0-9+/]{64}>>\n=<<[A-Za-z0-9]{4}>>\n"
    "-----END PGP PRIVATE KEY BLOCK-----",
    "putty key": "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n"
    "<<[A-Za-z0-9+/]{48}>>\nPrivate-MAC: <<[0-9a-f]{64}>>",
    "htpasswd": "me:<<$apr1$[A-Za-z0-9./]{8}$[A-Za-z0-9./]{22}>>",
    "shadow": "root:<<$6$[A-Za-z0-9./]{16}$[A-Za-z0-9./]{86}>>:19000:0:99999:7:::",
    "totp": "otpauth://totp/x?secret=<<[A-Z]{16}[A-Z]{16}>>&issuer=x",
    "bearer bare": "sent bearer <<[A-Za-z0-9_-]{36}>>",
    "ray": "ray start --head --redis-password='<<[a-z]{6}[0-9]{3}>>'",
    "mlflow": "MLFLOW_TRACKING_PASSWORD=<<[a-z]{6}[0-9]{3}>>",
    "ansible": "ansible_ssh_pass=<<[a-z]{6}[0-9]{3}>> ansible_host=worker1",
    "expect": 'expect "password:" { send "<<[a-z]{6}[0-9]{3}>>\\r" }',
    "passwd pipe": "echo user:<<[a-z]{6}[0-9]{3}>> | chpasswd",
    "rclone": "rclone copy :s3,access_key_id=abc,secret_access_key=<<[A-Za-z0-9]{40}>>:b/x /data",
    "mc alias": "mc alias set minio http://minio:9000 <<[A-Za-z0-9]{20}>> <<[A-Za-z0-9]{40}>>",
    "ossutil": "ossutil config -e oss-cn-beijing.aliyuncs.com -i <<LTAI[A-Za-z0-9]{20}>> -k <<[A-Za-z0-9]{30}>>",
    "azcopy": "AZCOPY_SPA_CLIENT_SECRET=<<[A-Za-z0-9]{30}>>",
    "entropy alone": "loaded licence <<[A-Za-z0-9]{40}>>",
    "base64 alone": "handshake <<[A-Za-z0-9+/]{43}=>>",
}

_FRESH = {
    "fresh age": "identity <<AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}>>",
    "fresh aiven": "AIVEN_TOKEN=<<[A-Za-z0-9+/]{372}>>",
    "fresh amazon oauth": "client <<amzn1.oa2-cs.v1.[a-f0-9]{64}>>",
    "fresh azure devops new": "pat is <<[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{22}ACAAAAA[A-Z0-9]{5}>>",
    "fresh azure event hub": "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=<<[A-Za-z0-9+/]{43}=>>",
    "fresh azure ml": "aml key <<[a-zA-Z0-9]{32}AAAAAAAAAAAAINFRAZML[A-Za-z0-9]{4}>>",
    "fresh baidu": "bce-v3/<<ALTAK-[A-Za-z0-9]{21}/[a-f0-9]{40}>>",
    "fresh cockroach": "CC key <<CCDB1_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}>>",
    "fresh cratesio": "cargo login <<cio[A-Za-z0-9]{32}>>",
    "fresh dfinity": "-----BEGIN EC PRIVATE KEY-----\n<<[A-Za-z0-9+/]{64}>>\n-----END EC PRIVATE KEY-----",
    "fresh duffel": "<<duffel_live_[A-Za-z0-9_-]{43}>>",
    "fresh facebook token": "fb <<EAAC[A-Za-z0-9]{140}>>",
    "fresh gitee": "gitee access_token=<<[a-f0-9]{32}>>",
    "fresh hashnode": f"hashnode pat: <<{_HEX_UUID}>>",
    "fresh intel": "SGX api key = <<[a-f0-9]{32}>>",
    "fresh lob": "lob key <<live_[a-f0-9]{35}>>",
    "fresh meta llama": "LLAMA_API_KEY=<<LLM|[0-9]{16}|[A-Za-z0-9]{27}>>",
    "fresh mistral": "MISTRAL_API_KEY: <<[A-Za-z0-9]{32}>>",
    "fresh moonshot": "kimi <<sk-[A-Za-z0-9]{48}>>",
    "fresh zhipu": "ZHIPUAI_API_KEY=<<[a-f0-9]{32}.[A-Za-z0-9]{16}>>",
    "fresh dashscope": "dashscope.api_key = '<<sk-[a-f0-9]{32}>>'",
    "fresh onfido": "<<api_live.[A-Za-z0-9_-]{11}.[A-Za-z0-9_-]{32}>>",
    "fresh openvsx": f"ovsx publish -p <<{_HEX_UUID}>>",
    "fresh persona": f"<<persona_production_{_HEX_UUID}>>",
    "fresh plivo": "PLIVO_AUTH_TOKEN=<<[A-Za-z0-9]{40}>>",
    "fresh ram alibaba sts": "SecurityToken: <<CAIS[A-Za-z0-9+/]{200}>>",
    "fresh scaleway": f"SCW_SECRET_KEY=<<{_HEX_UUID}>>",
    "fresh segment": "<<sgp_[A-Za-z0-9]{64}>>",
    "fresh siemens": "code.siemens <<glpat-[A-Za-z0-9_-]{20}>>",
    "fresh tencent wechat": "appsecret=<<[a-f0-9]{32}>>",
    "fresh unkey": "<<unkey_[A-Za-z0-9]{24}>>",
    "fresh vercel": "vercel --token <<[A-Za-z0-9]{24}>>",
    "fresh workos": "<<sk_live_[A-Za-z0-9]{60}>>",
    "fresh yandex": "ya passport <<y0_[A-Za-z0-9_-]{55}>>",
    "fresh zuplo": "<<zpka_[a-f0-9]{32}_[a-f0-9]{8}>>",
    "fresh together": "TOGETHER_API_KEY=<<[a-f0-9]{64}>>",
    "fresh runpod": "RUNPOD_API_KEY=<<rpa_[A-Z0-9]{40}>>",
    "fresh vast": "vastai set api-key <<[a-f0-9]{64}>>",
    "fresh lambda": "LAMBDA_API_KEY='<<secret_run_[a-z0-9]{32}.[A-Za-z0-9]{32}>>'",
    "fresh ngc cli": "ngc config set apikey <<[A-Za-z0-9]{84}>>",
    "fresh rsync": "RSYNC_PASSWORD=<<[a-z]{5}[0-9]{3}>> rsync -av u@h::m /d",
    "fresh ftp lftp": "lftp -u me,<<[a-z]{5}[0-9]{3}>> ftp.example.org",
    "fresh vnc": "x11vnc -passwd <<[a-z]{5}[0-9]{3}>>",
    "fresh kinit": "echo <<[a-z]{5}[0-9]{3}>> | kinit me@EXAMPLE.ORG",
    "fresh spark": "--conf spark.hadoop.fs.s3a.secret.key=<<[A-Za-z0-9+/]{40}>>",
    "fresh hdfs jceks": "fs.obs.secret.key: <<[A-Za-z0-9]{40}>>",
    "fresh juicefs": "juicefs format --access-key ABC --secret-key <<[A-Za-z0-9]{40}>> redis://h/1 x",
    "fresh slurm jwt": "export SLURM_JWT=<<eyJ[A-Za-z0-9]{33}.eyJ[A-Za-z0-9]{60}.[A-Za-z0-9_-]{43}>>",
    "fresh docker secret env": "ENV HF_TOKEN <<hf_[A-Za-z]{34}>>",
    "fresh compose": "POSTGRES_PASSWORD: ${PW:-<<[a-z]{5}[0-9]{4}>>}",
    "fresh java props": "spring.datasource.password=<<[a-z]{5}[0-9]{3}>>",
    "fresh dsn go": "root:<<[a-z]{5}[0-9]{3}>>@tcp(127.0.0.1:3306)/runs",
    "fresh odbc": "DRIVER={SQL};SERVER=x;UID=sa;PWD=<<[a-z]{5}[0-9]{3}>>",
    "fresh ssh askpass": "me@gpu1's password: <<[a-z]{5}[0-9]{3}>>",
    "fresh pw kwargs": "connect(host='db', user='me', passwd='<<[a-z]{5}[0-9]{3}>>')",
    "fresh zh long": "账号 admin 密码 <<[a-z]{5}[0-9]{4}>>",
    "fresh zh api key": "接口密钥为：<<[A-Za-z0-9]{32}>>",
    "fresh ja password": "パスワード：<<[a-z]{5}[0-9]{4}>>",
    "fresh de password": "Passwort: <<[a-z]{5}[0-9]{4}>>",
    "fresh webhook generic": "https://x.example.org/webhook/<<[A-Za-z0-9]{40}>>",
}
"""Written when the rules were done: 48 of these 60 went on first sight."""

_LAST = {
    "last anyscale": "anyscale auth with <<aph0_[A-Za-z0-9_-]{60}>>",
    "last cerebras": "cerebras <<csk-[a-z0-9]{48}>>",
    "last fireworks": "FIREWORKS_API_KEY=<<fw_[A-Za-z0-9]{24}>>",
    "last jina": "jina reader <<jina_[a-f0-9]{32}[A-Za-z0-9_-]{28}>>",
    "last tavily": "search: <<tvly-[A-Za-z0-9]{32}>>",
    "last voyage": "voyage <<pa-[A-Za-z0-9_-]{43}>>",
    "last stability": "image client <<sk-[A-Za-z0-9]{48}>>",
    "last polygon": "polygon.io apiKey=<<[A-Za-z0-9_]{32}>>",
    "last gitea": "gitea token <<[a-f0-9]{40}>>",
    "last bitly": "curl -H 'Authorization: Bearer <<[a-f0-9]{40}>>' x",
    "last mysql cnf": "[client]\nuser=root\npassword=<<[a-z]{4}#[0-9]{4}>>",
    "last wget header": "wget --header='X-Auth-Token: <<[a-f0-9]{32}>>' http://x",
    "last k8s dockercfg": "DOCKER_AUTH_CONFIG=<<eyJ[A-Za-z0-9]{80}>>",
    "last sops": "SOPS_AGE_KEY=<<AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}>>",
    "last vault cli": "vault login <<s.[A-Za-z0-9]{24}>>",
    "last gh auth": "gh auth login --with-token <<< <<gho_[A-Za-z0-9]{36}>>",
    "last pg service": "host=db user=me password=<<[a-z]{5}[0-9]{3}>> dbname=runs",
    "last ssh pass env": "SSHPASS=<<[a-z]{5}[0-9]{3}>> sshpass -e ssh n1",
    "last mlflow uri": "mlflow.set_tracking_uri('https://me:<<[a-z]{5}[0-9]{3}>>@ml.example.org')",
    "last kaggle env": "KAGGLE_KEY=<<[a-f0-9]{32}>>",
    "last dvc": "dvc remote modify --local r password <<[a-z]{5}[0-9]{3}>>",
    "last az storage": "az storage blob upload --account-key <<[A-Za-z0-9+/]{86}==>> -f x",
    "last gcs hmac": "gs_secret_access_key = <<[A-Za-z0-9+/]{40}>>",
    "last redis cfg": "requirepass <<[a-z]{5}[0-9]{3}>>",
    "last rabbit": "RABBITMQ_DEFAULT_PASS: <<[a-z]{5}[0-9]{3}>>",
    "last ldap bindpw": "bindpw <<[a-z]{5}[0-9]{3}>>",
    "last proxy": "https_proxy=http://me:<<[a-z]{5}[0-9]{3}>>@proxy:3128",
    "last dict repr": "{'host': 'db', 'passwd': '<<[a-z]{5}[0-9]{3}>>'}",
    "last dataclass": "S3Config(endpoint='x', secret_key='<<[A-Za-z0-9]{32}>>')",
    "last yaml list": "env:\n- name: HF_TOKEN\n  value: <<hf_[A-Za-z]{34}>>",
    "last url param zh": "http://x.cn/api?appid=1&appsecret=<<[a-f0-9]{32}>>",
    "last feishu app": "app_secret: <<[A-Za-z0-9]{32}>>",
    "last email smtp": "smtp.login('me@x.cn', '<<[a-z]{16}>>')",
    "last zh account": "用户名：admin，密码：<<[a-z]{5}@[0-9]{4}>>",
    "last pkcs8": "-----BEGIN ENCRYPTED PRIVATE KEY-----\n<<[A-Za-z0-9+/]{64}>>\n-----END ENCRYPTED PRIVATE KEY-----",
    "last wireguard": "PrivateKey = <<[A-Za-z0-9+/]{43}=>>",
    "last otp": "one-time code: <<[0-9]{6}>>",
    "last session cookie": "cookie: JSESSIONID=<<[A-F0-9]{32}>>",
    "last digest": 'Authorization: Digest username="me", response="<<[a-f0-9]{32}>>"',
    "last signed cf": "https://d.cloudfront.net/x?Policy=abc&Signature=<<[A-Za-z0-9~-]{100}>>&Key-Pair-Id=<<K[A-Z0-9]{13}>>",
}
"""Written after those: 33 of these 40 went on first sight."""


def kinds_of_detectors() -> dict[str, str]:
    """More kinds, by their names; see the first lines of the file."""
    lines = Path(__file__).with_name("detector_kinds.tsv").read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t", 1) for line in lines if not line.startswith("#"))


_AUDITED = {
    "audited --pw": "train.py --pw=<<[A-Za-z0-9]{10}>> --epochs 3",
    "audited pw assigned": "store.pw: <<[a-z]{5}[0-9]{4}>>",
    "audited htpasswd": "htpasswd -b .htpasswd me <<[a-z]{6}[0-9]{3}>>",
    "audited htpasswd printed": "htpasswd -nbB me <<[a-z]{6}[0-9]{3}>> > users",
    "audited plink": "plink -ssh me@n1 -pw <<[a-z]{6}[0-9]{3}>> nvidia-smi",
    "audited channel": "https://conda.example.org/t/co-<<[a-f0-9]{40}>>/team/linux-64",
}
"""What a later audit of 174 kinds, made from published formats of tokens and from commands, found to be left."""
KINDS = {**_DETECT_SECRETS, **_TRUFFLEHOG, **_EVERYDAY, **_FRESH, **_LAST, **_AUDITED}
