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
aws_access_key_id aws_secret_key aws_session_token aws_bedrock_key google_api_key google_oauth gcp_service_account_key
azure_storage_key azure_connection_key azure_sas azure_client_secret azure_devops_token alibaba_access_key tencent_key
digitalocean_token cloudflare_token heroku_key vercel_token netlify_token fly_token terraform_token vault_token
pulumi_token doppler_token onepassword_token github_token gitlab_token atlassian_token bitbucket_token npm_token
pypi_token rubygems_key crates_token clojars_token dockerhub_token nuget_key artifactory_token circleci_token
buildkite_token sonarqube_token sourcegraph_token postman_key prefect_key readme_key slack_token slack_webhook
discord_token discord_webhook telegram_token teams_webhook twilio_key sendgrid_key mailgun_key mailchimp_key
postmark_token brevo_key resend_key hubspot_token typeform_token stripe_key paypal_secret braintree_token square_token
shopify_token adyen_key duffel_token openai_key anthropic_key huggingface_token replicate_token cohere_key groq_key
perplexity_key xai_key mistral_key deepseek_key openrouter_key nvidia_key tavily_key langsmith_key pinecone_key
elevenlabs_key sentry_token new_relic_key datadog_key dynatrace_token grafana_token posthog_key linear_key
notion_token airtable_token figma_token asana_token contentful_token dropbox_token mapbox_token databricks_token
snowflake_token supabase_key planetscale_token okta_token auth0_secret tailscale_key private_key age_secret_key jwt
url_password connection_string authorization_header session_cookie seed_phrase payment_card iban us_ssn password
secret
"""
KINDS: Mapping[str, bool] = MappingProxyType({**dict.fromkeys(_ON.split(), True), "email": False, "phone": False})
"""Kinds of sensitive values, such as `github_token`. True if values of this kind are found by default."""

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
        hint = f"Did you mean {near[0]!r}?" if near else f"Known kinds: {', '.join(sorted(KINDS))}"
        raise InvalidInput(f"unknown kind of sensitive value {name!r}. {hint}")
    if both := sorted(added & taken):
        raise InvalidInput(f"{both[0]!r} is both added and, as '-{both[0]}', taken away; keep one of them")
    return frozenset({name for name, is_on in KINDS.items() if is_on} - taken | added)
