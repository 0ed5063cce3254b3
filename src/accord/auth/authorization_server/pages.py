"""The pages that users see: login, consent, entering a device's code, errors.

Plain HTML and CSS without scripts; all text from requests and settings is escaped.
"""

from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import urlsplit

import msgspec

from accord.auth.authorization_server.models import OAuthResponse
from accord.auth.browser import STYLE_SOURCE, html_page
from accord.auth.urls import is_loopback_url, root_url


class PageForm(msgspec.Struct, frozen=True):
    """The form of a page: where it is sent, its CSRF token, the cookie that the token fits."""

    action: str
    token: str
    cookie: str


def _page(
    title: str,
    body: str,
    *,
    status: int = 200,
    leads_to: str | None = None,
    form: PageForm | None = None,
) -> OAuthResponse:
    """Build a page; `leads_to` is the URI that its form may redirect to."""
    return OAuthResponse(
        status=status,
        headers=(
            ("content-type", "text/html; charset=utf-8"),
            ("content-security-policy", _policy(leads_to)),
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cache-control", "no-store"),
            *([] if form is None else [("set-cookie", form.cookie)]),
        ),
        body=html_page(title, body).encode(),
    )


def _policy(leads_to: str | None) -> str:
    # Browsers apply form-action to redirects after a form as well, and clients may redirect again.
    forms = "'self'"
    if leads_to is not None:
        forms += " https:"
        if leads_to.startswith("http://"):
            # A policy cannot name an IPv6 address.
            forms += " http:" if "[" in leads_to else f" {root_url(leads_to)}"
    return (
        f"default-src 'none'; style-src {STYLE_SOURCE}; base-uri 'none'; "
        f"frame-ancestors 'none'; form-action {forms}"
    )


def _form(form: PageForm, step: str, inner: str, *, kind: str = "") -> str:
    return (
        f'<form method="post" action="{escape(form.action)}"{kind}>'
        f'<input type="hidden" name="step" value="{escape(step)}">'
        f'<input type="hidden" name="csrf" value="{escape(form.token)}">{inner}</form>'
    )


def _alarm(fault: str) -> str:
    return f'<p class="alarm" role="alert" id="fault">{escape(fault)}</p>' if fault else ""


def login_page(
    form: PageForm, *, server: str, name: str = "", fault: str = "", status: int = 200
) -> OAuthResponse:
    described = ' aria-describedby="fault"' if fault else ""
    inner = (
        '<label for="name">Name</label>'
        f'<input id="name" name="name" value="{escape(name)}" autocomplete="username" '
        f'autocapitalize="none" spellcheck="false" required autofocus{described}>'
        '<label for="password">Password</label>'
        '<input id="password" name="password" type="password" '
        f'autocomplete="current-password" required{described}>'
        '<div class="buttons"><button class="act">Log in</button></div>'
    )
    body = (
        f'<h1>Log in</h1>\n<p class="soft">to {escape(server)}</p>\n{_alarm(fault)}\n'
        f"{_form(form, 'login', inner)}"
    )
    return _page("Log in", body, status=status, form=form)


def choose_provider_page(links: Mapping[str, str], *, server: str) -> OAuthResponse:
    """Show the identity providers to sign in with, each with the URL at which that begins."""
    buttons = "".join(
        f'<a class="button" href="{escape(url)}">{escape(title)}</a>'
        for title, url in links.items()
    )
    body = (
        f'<h1>Sign in with</h1>\n<p class="soft">to use {escape(server)}</p>\n'
        f'<div class="buttons">{buttons}</div>'
    )
    return _page("Sign in", body)


def sign_in_fault_page(
    lines: Iterable[str], *, retry: str, back: str | None, status: int
) -> OAuthResponse:
    """Show why a sign-in failed, with a way to try again and one back to the program."""
    body = (
        f"{_message('You are not signed in', lines)}\n"
        f'<div class="buttons"><a class="button" href="{escape(retry)}">Try again</a></div>'
    )
    if back is not None:
        is_near = is_loopback_url(back)
        host = "the program" if is_near else escape(urlsplit(back).hostname or "")
        doubt = "" if is_near else ", if that is where you came from"
        body += f'\n<p class="foot"><a href="{escape(back)}">Go back to {host}</a>{doubt}.</p>'
    return _page("You are not signed in", body, status=status)


class ConsentQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a consent page.

    Attributes:
        name: the name that the program registered with.
        returns_to: where the browser goes afterwards; None for a device.
        scopes: what the program may do, with descriptions.
        server: the URL of the server.
        user: the name of the user.
        may_leave: whether the user can log in as another user.
        user_code: the code on the device.
        described_at: the URL of the program's metadata document, which is its id.
    """

    name: str
    returns_to: str | None
    scopes: Mapping[str, str]
    server: str
    user: str
    may_leave: bool
    user_code: str | None = None
    described_at: str | None = None


def consent_page(form: PageForm, question: ConsentQuestion) -> OAuthResponse:
    shown, user_code = escape(question.name), question.user_code
    buttons = (
        '<div class="buttons">'
        '<button class="act" name="decision" value="allow">Allow</button>'
        '<button name="decision" value="deny">Deny</button></div>'
    )
    if user_code is not None:
        buttons = f'<input type="hidden" name="user_code" value="{escape(user_code)}">{buttons}'
    stop = "" if question.user.endswith(".") else "."  # as in "Example Inc."
    leave = ""
    if question.may_leave:
        button = '<button class="plain">Log in as another user</button>'
        leave = " " + _form(form, "leave", button, kind=' class="inline"')
    body = (
        f"<h1>Allow <q>{shown}</q> to use this server for you?</h1>\n"
        f"{_program(question)}\n"
        f"<h2>Server</h2>\n<p><code>{escape(question.server)}</code></p>\n"
        f"<h2>It will be able to</h2>\n{_permissions(question.scopes)}\n"
        f"{_return(question.returns_to, user_code)}\n"
        f"{_form(form, 'consent', buttons)}\n"
        f'<div class="soft foot">You are <strong>{escape(question.user)}</strong>{stop}'
        f"{leave}</div>"
    )
    return _page(f"Allow {question.name}?", body, leads_to=question.returns_to, form=form)


def _program(question: ConsentQuestion) -> str:
    """Say what is known of the program: its host, if its id is the URL of a document."""
    url = question.described_at
    if url is None:
        return '<p class="soft">The program chose this name itself. It is not verified.</p>'
    host = escape(urlsplit(url).hostname or "")
    told = (
        f"<p>The program is described by <strong>{host}</strong>: <code>{escape(url)}</code></p>\n"
        '<p class="soft">The name is from there. It is not verified.</p>'
    )
    if question.returns_to is not None and is_loopback_url(question.returns_to):
        # auth.cimd.as-localhost-warning: documents are public, so any program can use one.
        told += (
            '\n<p class="alarm">Any program on this computer can claim to be this one: the answer '
            f"goes to this computer, not to {host}.</p>"
        )
    return told


def _permissions(scopes: Mapping[str, str]) -> str:
    if not scopes:
        return "<ul>\n<li>use everything that the server offers you</li>\n</ul>"
    lines = "\n".join(_permission(scope, meaning) for scope, meaning in scopes.items())
    return f"<ul>\n{lines}\n</ul>"


def _permission(scope: str, meaning: str) -> str:
    if not meaning:
        return f"<li><code>{escape(scope)}</code></li>"
    if not scope:
        return f"<li>{escape(meaning)}</li>"
    return f'<li>{escape(meaning)} <span class="soft">(<code>{escape(scope)}</code>)</span></li>'


def _return(returns_to: str | None, user_code: str | None) -> str:
    if returns_to is None:
        return (
            "<h2>Code on the device</h2>\n"
            f"<p><code>{escape(user_code or '')}</code></p>\n"
            "<p>Allow it only if you see this code on a device of your own.</p>"
        )
    if is_loopback_url(returns_to):
        target = "a program on this computer"
    else:
        target = f"<strong>{escape(urlsplit(returns_to).hostname or '')}</strong>"
    return (
        f"<h2>Afterwards you are sent to</h2>\n<p>{target}: <code>{escape(returns_to)}</code></p>\n"
        "<p>Allow it only if you have just started this yourself.</p>"
    )


def code_page(form: PageForm, *, fault: str = "", status: int = 200) -> OAuthResponse:
    inner = (
        '<label for="user_code">Code on the device</label>'
        '<input id="user_code" name="user_code" autocomplete="off" autocapitalize="characters" '
        'spellcheck="false" required autofocus>'
        '<div class="buttons"><button class="act">Continue</button></div>'
    )
    body = f"<h1>Connect a device</h1>\n{_alarm(fault)}\n{_form(form, 'code', inner)}"
    return _page("Connect a device", body, status=status, form=form)


def done_page(title: str, lines: Iterable[str]) -> OAuthResponse:
    """Show the user that they are done."""
    return _page(title, _message(title, lines))


def fault_page(title: str, lines: Iterable[str], *, status: int = 400) -> OAuthResponse:
    """Show the user an error; the browser is not redirected."""
    return _page(title, _message(title, lines), status=status)


def leaving_page(why: str, location: str) -> OAuthResponse:
    """Show the user that a request was refused, with a link back to the program."""
    host = escape(urlsplit(location).hostname or "")
    body = (
        f"{_message('This request cannot be served', [why])}\n"
        f'<p>The program waits for an answer. <a href="{escape(location)}">Go back to {host}</a>, '
        "if that is where you came from.</p>"
    )
    return _page("This request cannot be served", body, status=400)


def _message(title: str, lines: Iterable[str]) -> str:
    paragraphs = "\n".join(f"<p>{escape(line)}</p>" for line in lines)
    return f"<h1>{escape(title)}</h1>\n{paragraphs}"
