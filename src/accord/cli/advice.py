"""Advice for programs, in the options of the command line."""

import re
from typing import Final

# From parameters in Python to options in a shell, the longest first.
_WORDS: Final = tuple(
    (re.compile(advice), typed)
    for advice, typed in (
        (
            r'pass auth="oauth" to obtain a token, or auth="\.\.\." with one',
            "add --oauth to obtain a token, or --bearer TOKEN",
        ),
        (
            r"pass OAuth\(client_id=\.\.\.\), with redirect URI (\S+), and OAuth\(redirect_.*\)",
            r"name it: --client-id ID --redirect-uri \1",
        ),
        (r"pass OAuth\(client_id=\.\.\.\)", "name it: --client-id ID"),
        (r"another redirect_port or redirect_uri", "another --redirect-uri"),
        (
            r"^redirect_uri is (.*), and no redirect_port beside it$",
            r"--redirect-uri is \1",
        ),
        (
            r"OAuth\(grant='client_credentials'\) or 'device', pass open_browser=,",
            "--grant client-credentials or --grant device,",
        ),
        (r"OAuth\(grant='client_credentials'\)", "--grant client-credentials"),
        (
            r"^client_secret needs issuer=: add OAuth\(issuer='https://\.\.\.'\)",
            "the secret in ACCORD_CLIENT_SECRET needs --issuer URL",
        ),
        (r"OAuth\(issuer='([^']*)'\) trusts", r"--issuer \1 trusts"),
        (r"OAuth\(scopes=\[\.\.\.\]\)", "--scope S"),
        (r'auth="\.\.\."', "--bearer TOKEN"),
        (r", or allow more time with OAuth\(timeout=\.\.\.\)", ""),
        (
            r"pass OAuth\(store=FileStore\(path\)\) with .*, or OAuth\(store=MemoryStore\(\)\)",
            "let it be written, or give a token with --bearer TOKEN",
        ),
        (
            r"keep tokens where files can be locked: OAuth\(store=FileStore\(path\)\)",
            "give a token with --bearer TOKEN: files cannot be locked there",
        ),
        (r"\bin trust=\[\.\.\.\]", "in OAuth(trust=[...])"),
    )
)
# What is left has no option, and may have another call within.
_OF_PROGRAMS: Final = re.compile(r"\b(?:OAuth|ClientKey)\((?:[^()]|\([^()]*\))*\)")


def in_options(text: str) -> str:
    """Replace the parameters in an error message by options of the command line.

    What has no option is marked as something for a program.

    >>> in_options("ask for other scopes with OAuth(scopes=[...])")
    'ask for other scopes with --scope S'
    """
    for advice, typed in _WORDS:
        text = advice.sub(typed, text)
    return _OF_PROGRAMS.sub(r"\g<0> in a program", text)
