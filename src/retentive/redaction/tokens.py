"""Rule tables for vendor keys and tokens, from the vendors' documentation.

Each token starts with a text that only this vendor uses, so a match needs no context.
"""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

import re
from collections.abc import Callable

from retentive.redaction.checks import is_checked_token, is_jwt, is_random, is_snowflake_token
from retentive.redaction.rules import Rule

# A token follows anything but a letter or digit; an escaped newline (JSON) or %3D (URL) may precede it.
BEFORE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))"
AFTER = r"(?![A-Za-z0-9])"
# BEFORE, placed after the first character: `re` is faster if a pattern starts with a literal.
BEFORE_LAST = r"(?:(?<![A-Za-z0-9].)|(?<=\\[nrt].)|(?<=%[0-9A-Fa-f][0-9A-Fa-f].))"
GATE = r"(?:^|[^A-Za-z0-9]|\\[nrt]|%[0-9A-Fa-f][0-9A-Fa-f])"  # BEFORE for RE2, which has no lookbehind
_LOOK_AHEAD = 12  # characters after the start that RE2 checks too
UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

# kind, texts it starts with, pattern of the rest
_FORMS: list[tuple[str, str, str]] = [
    ("aws_access_key_id", "AKIA ASIA ABIA ACCA", r"[A-Z2-7]{16}"),
    ("aws_bedrock_key", "ABSK", r"[A-Za-z0-9+/]{80,}={0,2}"),
    ("google_api_key", "AIza", r"[A-Za-z0-9_-]{35}"),
    ("google_api_key", "AQ.Ab", r"[A-Za-z0-9_-]{40,100}"),
    ("google_oauth", "GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    ("google_oauth", "ya29.", r"[A-Za-z0-9_-]{20,}"),
    ("google_oauth", "1//0", r"[A-Za-z0-9_-]{40,}"),
    ("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{64}"),
    ("alibaba_access_key", "LTAI", r"[A-Za-z0-9]{12,26}"),
    ("cloudflare_token", "cfut_ cfat_ cfk_", r"[A-Za-z0-9_-]{40,60}"),
    ("cloudflare_token", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{146}"),
    ("heroku_key", "HRKU-", rf"(?:AA[A-Za-z0-9_-]{{58}}|{UUID})"),
    ("vercel_token", "vcp_ vci_ vca_ vcr_ vck_", r"[A-Za-z0-9]{24,60}"),
    ("netlify_token", "nfp_ nfc_ nfo_ nfu_ nfb_", r"[A-Za-z0-9]{36}"),
    ("fly_token", "fm1_ fm1a_ fm1r_ fm2_", r"[A-Za-z0-9+/_-]{60,}={0,3}(?:,fm[12][ar]?_[A-Za-z0-9+/_-]{60,}={0,3})*"),
    ("fly_token", "fo1_", r"[A-Za-z0-9_-]{43}"),
    ("vault_token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{24,}"),
    ("gitlab_token", "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- glrtr- glwt-",
     r"[A-Za-z0-9_-]{20,300}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?"),
    ("gitlab_token", "GR1348941", r"[A-Za-z0-9_-]{20}"),
    ("atlassian_token", "ATATT3 ATCTT3", r"[A-Za-z0-9_-]{60,}(?:=[0-9A-F]{8})?"),
    ("bitbucket_token", "ATBB", r"[A-Za-z0-9]{28,36}"),
    ("bitbucket_token", "BBDC-", r"[A-Za-z0-9+/@_-]{40,50}"),
    ("slack_token", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxc- xoxd- xoxo-", r"[A-Za-z0-9%+/=-]{10,}"),
    ("slack_token", "xoxe.xoxp- xoxe.xoxb-", r"[A-Za-z0-9-]{20,}"),
    ("slack_token", "xapp-", r"\d-[A-Z0-9]{8,}-\d+-[a-f0-9]{32,}"),
    ("sendgrid_key", "SG.", r"[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    ("mailgun_key", "key-", r"[a-f0-9]{32}"),
    ("mailchimp_key", "md-", r"[A-Za-z0-9_-]{22}"),
    ("twilio_key", "SK", r"[a-f0-9]{32}"),
    ("stripe_key", "sk_live_ sk_test_ rk_live_ rk_test_ sk_org_live_ sk_org_test_", r"[A-Za-z0-9]{16,250}"),
    ("stripe_key", "whsec_", r"[A-Za-z0-9+/]{24,}={0,2}"),
    ("braintree_token", "access_token$production$ access_token$sandbox$", r"[0-9a-z]{16}\$[0-9a-f]{32}"),
    ("square_token", "EAAA", r"[A-Za-z0-9_-]{58,64}"),
    ("square_token", "sq0atp- sq0csp- sq0idp-", r"[A-Za-z0-9_-]{22,50}"),
    ("shopify_token", "shpat_ shpca_ shppa_ shpss_ shpua_", r"[a-fA-F0-9]{32}"),
    ("adyen_key", "AQE", r"[a-z]hm[A-Za-z0-9+/=]{20,}(?:-[A-Za-z0-9+/=]{20,})?(?:-[!#-%(-;=?-\[\]-_a-~]{8,40}(?<![.,;:*)\]}?!]))?"),
    ("openai_key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[A-Za-z0-9_-]{20,}"),
    ("openai_key", "sk-", r"[A-Za-z0-9]{20,64}"),
    ("openrouter_key", "sk-or-v1-", r"[0-9a-f]{64}"),
    ("anthropic_key", "sk-ant-", r"[a-z]{3,6}\d\d-[A-Za-z0-9_-]{24,}"),
    ("huggingface_token", "hf_ api_org_", r"[A-Za-z0-9]{34,38}"),
    ("replicate_token", "r8_", r"[A-Za-z0-9]{37}"),
    ("groq_key", "gsk_", r"[A-Za-z0-9]{48,56}"),
    ("perplexity_key", "pplx-", r"[A-Za-z0-9]{40,56}"),
    ("xai_key", "xai-", r"[A-Za-z0-9]{70,90}"),
    ("nvidia_key", "nvapi-", r"[A-Za-z0-9_-]{60,70}"),
    ("tavily_key", "tvly-", r"[A-Za-z0-9-]{32,60}"),
    ("langsmith_key", "lsv2_pt_ lsv2_sk_", r"[a-f0-9]{32}_[a-f0-9]{10}"),
    ("pinecone_key", "pcsk_", r"[A-Za-z0-9]{4,8}_[A-Za-z0-9]{40,70}"),
    ("rubygems_key", "rubygems_", r"[a-f0-9]{48}"),
    ("crates_token", "cio", r"[A-Za-z0-9]{32}"),
    ("dockerhub_token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{27,40}"),
    ("nuget_key", "oy2", r"[a-z0-9]{43}"),
    ("new_relic_key", "NRAK- NRII- NRRA- NRIQ-", r"[A-Za-z0-9_-]{24,42}"),
    ("grafana_token", "glc_", r"[A-Za-z0-9+/]{32,400}={0,3}"),
    ("grafana_token", "glsa_", r"[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    ("linear_key", "lin_api_", r"[A-Za-z0-9]{40}"),
    ("linear_key", "lin_oauth_", r"[a-f0-9]{64}"),
    ("notion_token", "ntn_", r"[A-Za-z0-9]{40,50}"),
    ("notion_token", "secret_", r"[A-Za-z0-9]{43}"),
    ("airtable_token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    ("figma_token", "figd_ figo_ figu_ figdr_ figor_", r"[A-Za-z0-9_-]{40,50}"),
    ("databricks_token", "dapi dose", r"[a-f0-9]{32}(?:-\d)?"),
    ("supabase_key", "sbp_", r"[a-f0-9]{40}"),
    ("supabase_key", "sb_secret_", r"[A-Za-z0-9_-]{22,50}"),
    ("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_=.-]{32,64}"),
    ("doppler_token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("onepassword_token", "ops_eyJ", r"[A-Za-z0-9+/_-]{80,}={0,3}"),
    ("onepassword_token", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
    ("age_secret_key", "AGE-SECRET-KEY-1", r"[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    ("pypi_token", "pypi-AgE", r"[A-Za-z0-9_-]{50,}"),
    ("sentry_token", "sntrys_eyJ", r"[A-Za-z0-9+/=_-]{80,}"),
    ("sentry_token", "sntryu_", r"[a-f0-9]{64}"),
    ("pulumi_token", "pul-", r"[a-f0-9]{40}"),
    ("postman_key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    ("dynatrace_token", "dt0c01. dt0s01. dt0s02. dt0s16.", r"[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    ("dropbox_token", "sl.", r"(?:u\.)?[A-Za-z0-9_-]{100,}"),
    ("hubspot_token", "pat-na1- pat-eu1- pat-na2- pat-ap1-", UUID),
    ("brevo_key", "xkeysib- xsmtpsib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("resend_key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{24}"),
    ("sonarqube_token", "sqp_ squ_ sqa_", r"[a-f0-9]{40}"),
    ("tailscale_key", "tskey-api- tskey-auth- tskey-client- tskey-scim- tskey-webhook-", r"[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}"),
    ("circleci_token", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{22}_[a-f0-9]{40}"),
    ("buildkite_token", "bkua_ bkct_", r"[a-f0-9]{40}"),
    ("artifactory_token", "AKCp", r"[A-Za-z0-9]{69}"),
    ("contentful_token", "CFPAT-", r"[A-Za-z0-9_-]{43}"),
    ("posthog_key", "phx_", r"[A-Za-z0-9]{40,50}"),
    ("sourcegraph_token", "sgp_", r"(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}"),
    ("mapbox_token", "sk.eyJ", r"[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{20,}"),
    ("typeform_token", "tfp_", r"[A-Za-z0-9_.=-]{44,60}"),
    ("clojars_token", "CLOJARS_", r"[a-z0-9]{60}"),
    ("elevenlabs_key", "sk_", r"[a-f0-9]{48}"),
    ("prefect_key", "pnu_ pnb_", r"[A-Za-z0-9]{36}"),
    ("readme_key", "rdme_", r"[a-z0-9]{70}"),
    ("duffel_token", "duffel_live_ duffel_test_", r"[A-Za-z0-9_=-]{43}"),
    ("tencent_key", "AKID", r"[A-Za-z0-9]{32}"),
    # vendors without a kind of their own
    ("secret", "csk-", r"[a-z0-9]{44,52}"),
    ("secret", "fc-", r"[a-f0-9]{32}"),
    ("secret", "e2b_", r"[a-f0-9]{40}"),
    ("secret", "jina_", r"[A-Za-z0-9_-]{50,70}"),
    ("secret", "fw_", r"[A-Za-z0-9]{22,24}"),
    ("secret", "sk-lf- sk-helicone-", r"[a-z0-9-]{30,60}"),
    ("secret", "FLWSECK-", r"[A-Za-z0-9-]{30,60}"),
    ("secret", "FLWSECK_TEST-", r"[A-Za-z0-9-]{12,60}"),
    ("secret", "EZAK EZTK", r"[A-Za-z0-9]{54}"),
    ("secret", "shippo_live_ shippo_test_", r"[a-f0-9]{40}"),
    ("secret", "access-production- access-sandbox- access-development-", UUID),
    ("secret", "fio-u-", r"[A-Za-z0-9_=-]{64}"),
    ("secret", "ico-", r"[A-Za-z0-9]{32}"),
    ("secret", "sha256~", r"[A-Za-z0-9_-]{43}"),
    ("secret", "tk-us-", r"[A-Za-z0-9_-]{48}"),
    ("secret", "phs_ phc_secret_", r"[A-Za-z0-9]{40,50}"),
    ("secret", "rpa_", r"[A-Z0-9]{40}[a-z0-9]{6}"),
    ("secret", "EAAG EAAC EAAB", r"[A-Za-z0-9]{90,250}"),
    ("secret", "ATTA", r"[a-f0-9]{64}[A-F0-9]{8}"),
    ("secret", "API-", r"[A-Z0-9]{25,34}"),
    ("asana_token", "2/", r"\d{15,17}/\d{15,17}:[a-f0-9]{32}"),
]  # fmt: skip


def _form(kind: str, starts: str, rest: str, check: Callable[[str], bool] = is_random) -> Rule:
    texts = tuple(starts.split())
    start = "|".join(text.replace(".", r"\.").replace("$", r"\$") for text in texts)
    then = re.match(r"((?:\[[^\]]+\]|\\d))\{(\d+)", rest)
    next_chars = f"{then[1]}{{{min(int(then[2]), _LOOK_AHEAD)}}}" if then else ""
    return Rule(kind, f"{BEFORE}(?:{start}){rest}{AFTER}(?<!\\.)", check, starts=texts, then=next_chars)


TOKENS: list[Rule] = [
    *(_form(*form) for form in _FORMS),
    _form("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,251}", is_checked_token),
    _form("github_token", "ghs_", r"[A-Za-z0-9_]{1,40}eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"),
    _form("github_token", "github_pat_", r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}", is_checked_token),
    _form("npm_token", "npm_", r"[A-Za-z0-9]{36}", is_checked_token),
    _form("jwt", "eyJ", r"[A-Za-z0-9_-]{10,2000}+\.(?:[A-Za-z0-9_-]{4,}|(?=\.))(?:\.[A-Za-z0-9_-]+){0,3}", is_jwt),
    Rule("terraform_token", rf"{BEFORE}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_=-]{{60,70}}{AFTER}", is_random,
         holds=(".atlasv1.",)),
    Rule("azure_client_secret", rf"{BEFORE}[A-Za-z0-9_~.-]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}(?![A-Za-z0-9_~-])",
         is_random, holds=("Q~",)),
    Rule("azure_devops_token", rf"{BEFORE}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{AFTER}", is_random, holds=("AZDO",)),
    Rule("telegram_token", rf"(?:{BEFORE}|(?<=bot))\d{{8,10}}:AA[A-Za-z0-9_-]{{32,34}}{AFTER}", is_random,
         holds=(":AA",)),
    Rule("telegram_token", rf"bot(?P<value>\d{{8,10}}:[A-Za-z0-9_-]{{35}}){AFTER}", is_random, starts=("bot",),
         then=r"\d{8,10}:"),
    Rule("discord_token", rf"{BEFORE}[MNO][A-Za-z0-9_-]{{22,27}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,40}}{AFTER}",
         is_snowflake_token, gate="(?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){3}"),  # base64 of digits only
    Rule("mailgun_key", rf"{BEFORE}[a-f0-9]{{32}}-[a-f0-9]{{8}}-[a-f0-9]{{8}}(?![A-Za-z0-9-])", is_random,
         gate=r"-[a-f0-9]{8}-[a-f0-9]{8}"),
    Rule("mailchimp_key", rf"{BEFORE}[a-f0-9]{{32}}-us\d{{1,2}}{AFTER}", is_random, holds=("-us",),
         gate=r"[a-f0-9]{4}-us\d"),
    Rule("new_relic_key", rf"{BEFORE}(?:[a-f0-9]{{36}}|(?:eu|us)\d\dxx[a-f0-9]{{30}})(?:NRAL|FFFFNRAL){AFTER}", is_random,
         holds=("NRAL",)),
]  # fmt: skip
