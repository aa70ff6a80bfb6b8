"""Redaction rules: their types, the kinds of sensitive values, and the built-in rules as data (`rules.toml`)."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

from retentive.errors import InvalidInput

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sensitive value, such as `github_token`.

    Settings refer to it by `name`. `on` is True if values of this kind are found by default.
    """

    name: str
    description: str
    on: bool = True


class Find(NamedTuple):
    """A match: a sensitive value in a text, with its kind and its start and end in characters.

    If `likely` is True, only the context suggests that the value is sensitive. Otherwise the match is certain.
    """

    kind: str
    start: int
    end: int
    likely: bool = False


@dataclass(frozen=True)
class Rule:
    """Regular expression (`re`) for one kind of sensitive value. The value is the group `value`, or the whole match.

    `check` takes a matched value and returns whether it counts. If `likely` is True, the setting `sensitive_likely`
    applies to the matches, not the setting `sensitive`. A pattern with unbounded backtracking slows every write.
    """

    name: str
    pattern: str
    check: Callable[[str], bool] | None = None
    likely: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InvalidInput(
                f"invalid rule name {self.name!r}: use at most 40 lower-case letters, digits, _ and -, "
                "starting with a letter"
            )

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern, compiled at first use. Raises `InvalidInput` if `re` cannot compile it."""
        try:
            return re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidInput(f"invalid pattern in rule {self.name!r}: {error}") from None

    def to_find(self, match: re.Match[str]) -> Find | None:
        """Convert a match of the pattern to a `Find`. Return None if the value is empty or fails the check."""
        group = "value" if "value" in self.compiled.groupindex else 0
        start, end = match.span(group)
        if end <= max(start, 0) or (self.check is not None and not self.check(match[group])):
            return None
        return Find(self.name, start, end, likely=self.likely)


@cache
def data() -> Any:
    """Return the tables of `rules.toml`. They are constant."""
    return tomllib.loads(files("retentive.redaction").joinpath("rules.toml").read_text("utf-8"))


def expanded(pattern: str) -> str:
    """Return a pattern of `rules.toml` with the `parts` that it names filled in."""
    for name, part in data()["parts"].items():
        pattern = pattern.replace(f"<{name}>", part)
    return pattern


def lowered(text: str) -> str:
    r"""Return the text in lower case, with each character at its old position.

    Only \u0130 needs care, because its lower case has two characters.
    """
    return text.lower() if text.isascii() else text.replace("\u0130", "I").lower()


_ON = """
aws_access_key_id: AWS access key id (AKIA..., ASIA...)
aws_secret_key: AWS secret access key
aws_session_token: AWS session token
aws_bedrock_key: Amazon Bedrock API key
google_api_key: Google Cloud, Maps, Firebase or Gemini API key
google_oauth: Google OAuth client secret, access or refresh token
gcp_service_account_key: private key of a Google Cloud service account
azure_storage_key: Azure Storage, Cosmos DB or Cognitive Services account key
azure_connection_key: shared access key of an Azure Service Bus, Event Hubs or IoT Hub connection string
azure_sas: signature of an Azure shared access signature
azure_client_secret: Microsoft Entra ID (Azure AD) client secret
azure_devops_token: Azure DevOps personal access token
alibaba_access_key: Alibaba Cloud access key id or secret
tencent_key: Tencent Cloud secret id
digitalocean_token: DigitalOcean token
cloudflare_token: Cloudflare API token, global key or origin CA key
heroku_key: Heroku API key
vercel_token: Vercel token
netlify_token: Netlify token
fly_token: Fly.io token
terraform_token: HCP Terraform (Terraform Cloud) token
vault_token: HashiCorp Vault token
pulumi_token: Pulumi access token
doppler_token: Doppler token
onepassword_token: 1Password service account token or secret key
github_token: GitHub token, classic, fine-grained, OAuth or app
gitlab_token: GitLab token
atlassian_token: Atlassian API token
bitbucket_token: Bitbucket app password or access token
npm_token: npm access token
pypi_token: PyPI API token
rubygems_key: RubyGems API key
crates_token: crates.io API token
clojars_token: Clojars deploy token
dockerhub_token: Docker Hub access token
nuget_key: NuGet API key
artifactory_token: JFrog Artifactory API key
circleci_token: CircleCI token
buildkite_token: Buildkite token
sonarqube_token: SonarQube token
sourcegraph_token: Sourcegraph access token
postman_key: Postman API key
prefect_key: Prefect API key
readme_key: ReadMe API key
slack_token: Slack token
slack_webhook: Slack webhook URL
discord_token: Discord bot token
discord_webhook: Discord webhook URL
telegram_token: Telegram bot token
teams_webhook: Microsoft Teams or Power Automate webhook URL
twilio_key: Twilio API key or auth token
sendgrid_key: SendGrid API key
mailgun_key: Mailgun API key
mailchimp_key: Mailchimp or Mandrill API key
postmark_token: Postmark server token
brevo_key: Brevo API key
resend_key: Resend API key
hubspot_token: HubSpot private app token
typeform_token: Typeform token
stripe_key: Stripe secret or restricted key, webhook secret
paypal_secret: PayPal client secret
braintree_token: Braintree access token
square_token: Square access token or secret
shopify_token: Shopify access token or shared secret
adyen_key: Adyen API key
duffel_token: Duffel token
openai_key: OpenAI API key, and others of its form
anthropic_key: Anthropic API key or token
huggingface_token: Hugging Face token
replicate_token: Replicate API token
cohere_key: Cohere API key
groq_key: Groq API key
perplexity_key: Perplexity API key
xai_key: xAI API key
mistral_key: Mistral API key
deepseek_key: DeepSeek API key
openrouter_key: OpenRouter API key
nvidia_key: NVIDIA API key
tavily_key: Tavily API key
langsmith_key: LangSmith API key
pinecone_key: Pinecone API key
elevenlabs_key: ElevenLabs API key
sentry_token: Sentry auth token (a DSN is public)
new_relic_key: New Relic key
datadog_key: Datadog API or application key
dynatrace_token: Dynatrace token
grafana_token: Grafana token
posthog_key: PostHog personal API key
linear_key: Linear API key
notion_token: Notion integration token
airtable_token: Airtable token or API key
figma_token: Figma token
asana_token: Asana personal access token
contentful_token: Contentful token
dropbox_token: Dropbox access token
mapbox_token: Mapbox secret token
databricks_token: Databricks token
snowflake_token: Snowflake programmatic access token
supabase_key: Supabase token or secret key
planetscale_token: PlanetScale token or password
okta_token: Okta API token
auth0_secret: Auth0 client secret
tailscale_key: Tailscale key
private_key: private key (PEM, OpenSSH, PGP, PuTTY)
age_secret_key: age secret key
jwt: JSON Web Token
url_password: password in a URL
connection_string: password in a connection string (ADO, ODBC, JDBC)
authorization_header: credentials of an HTTP Authorization header
session_cookie: cookie of a session
seed_phrase: recovery phrase of a wallet
payment_card: number of a payment card
iban: international bank account number
us_ssn: US social security number
password: password after a word for it, in configuration or prose
secret: random value after a word for a key, token or secret
"""
_OFF = """
email: e-mail address
phone: phone number
"""


def _kinds(lines: str, *, on: bool) -> dict[str, Kind]:
    rows = (line.partition(": ") for line in lines.strip().splitlines())
    return {name: Kind(name, description, on) for name, _, description in rows}


KINDS: Mapping[str, Kind] = MappingProxyType(_kinds(_ON, on=True) | _kinds(_OFF, on=False))

# When matches overlap, the most specific kind wins. Kinds that are not listed here are the most specific. Of the listed
# kinds, an earlier one is more specific than a later one.
SPECIFIC_LAST = (
    "us_ssn",
    "payment_card",
    "url_password",
    "connection_string",
    "authorization_header",
    "session_cookie",
    "password",
    "secret",
    "phone",
    "email",
)


def with_changes(changes: Collection[str] | None) -> frozenset[str]:
    """Return the kinds to find: those that are on by default, changed by the setting `sensitive_kinds`.

    A name adds its kind, and a name after `-` takes it away. Raises `InvalidInput` for an unknown kind, and for a kind
    that is both added and taken away.
    """
    added = {name for name in changes or () if not name.startswith("-")}
    taken = {name[1:] for name in changes or () if name.startswith("-")}
    for name in sorted((added | taken) - KINDS.keys()):
        near = difflib.get_close_matches(name, KINDS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidInput(f"unknown kind of sensitive value {name!r}.{hint} Known kinds: {', '.join(sorted(KINDS))}")
    if both := sorted(added & taken):
        raise InvalidInput(f"{both[0]!r} is both added and, as '-{both[0]}', taken away; keep one of them")
    return frozenset({name for name, kind in KINDS.items() if kind.on} - taken | added)
