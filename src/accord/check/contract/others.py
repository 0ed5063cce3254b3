"""Tests of resources, prompts and completions: what is listed can be had."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from accord.check.contract.declared_tests import BAD_CODES
from accord.check.contract.model import Failure, Test, TestKind, TestOutcome, pass_
from accord.check.contract.tested_server import ServerAnswer, TestedServer
from accord.client import blocking
from accord.protocol.uri_template import parse
from accord.types import PromptReference, ResourceTemplateReference

_VALUE: Final = "text"
_RESULT: Final = "a result"
_NO_FAULT: Final = "a result, or an error that is no internal one"


def resource_tests(resource: Mapping[str, Any]) -> list[Test]:
    """Return the test of a resource: it can be read."""
    uri = str(resource["uri"])

    def run(contact: TestedServer) -> TestOutcome:
        answer = contact.ask(blocking.Client.read_resource, uri)
        wrong = _RESULT if answer.kind != "result" else ""
        return _judged(wrong, answer, uri, contact.way.read(uri))

    return [_test("resource", uri, f"resource {uri} can be read", run)]


def template_tests(template: Mapping[str, Any], *, completes: bool) -> list[Test]:
    """Return the tests of a template: any value is answered, if only with an error."""
    text = str(template["uriTemplate"])
    try:
        parsed = parse(text)
        variables = list(parsed.variables)
        uri = parsed.expand(dict.fromkeys(variables, _VALUE))
    except ValueError as error:
        failed = TestOutcome(
            verdict="fail",
            failure=Failure(expected="a URI template", came=str(error), given=text),
        )
        return [_test("resource", text, f"template {text} can be used", lambda _: failed)]

    def run(contact: TestedServer) -> TestOutcome:
        answer = contact.ask(blocking.Client.read_resource, uri)
        return _judged(_fault(answer), answer, uri, contact.way.read(uri))

    reference = ResourceTemplateReference(text)
    return [
        _test("resource", text, f"template {text} answers any value", run),
        *(_completion(reference, text, name) for name in (variables if completes else ())),
    ]


def prompt_tests(prompt: Mapping[str, Any], *, completes: bool) -> list[Test]:
    """Return the tests of a prompt: it can be got, and not without what it requires."""
    name = str(prompt["name"])
    listed = [each for each in prompt.get("arguments") or () if isinstance(each, dict)]
    names = [str(each["name"]) for each in listed]
    required = [str(each["name"]) for each in listed if each.get("required")]
    full = dict.fromkeys(names, _VALUE)
    tests = [
        _test("prompt", name, f"prompt {name} answers", partial(_got, name, full)),
    ]
    for missing in required:
        rest = {key: value for key, value in full.items() if key != missing}
        sentence = f"prompt {name} refuses to go without {missing}"
        tests.append(_test("prompt", name, sentence, partial(_refused, name, rest)))
    if completes:
        tests += [_completion(PromptReference(name), f"prompt {name}", each) for each in names]
    return tests


def _got(name: str, arguments: dict[str, str], contact: TestedServer) -> TestOutcome:
    answer = contact.ask(blocking.Client.get_prompt, name, arguments or None)
    given = f"{name} {arguments}"
    return _judged(_fault(answer), answer, given, contact.way.prompt(name, arguments))


def _refused(name: str, arguments: dict[str, str], contact: TestedServer) -> TestOutcome:
    answer = contact.ask(blocking.Client.get_prompt, name, arguments or None)
    is_refused = answer.kind == "error" and answer.code not in BAD_CODES
    wrong = "" if is_refused else "a refusal: error -32602"
    return _judged(wrong, answer, f"{name} {arguments}", "")


def _completion(reference: Any, subject: str, argument: str) -> Test:
    def run(contact: TestedServer) -> TestOutcome:
        answer = contact.ask(blocking.Client.complete, reference, argument, "")
        return _judged(_fault(answer), answer, f"{subject}, {argument}, nothing typed", "")

    return _test("completion", subject, f"completion of {argument} of {subject} answers", run)


def _fault(answer: ServerAnswer) -> str:
    is_bad = answer.kind != "result" and (answer.kind != "error" or answer.code in BAD_CODES)
    return _NO_FAULT if is_bad else ""


def _judged(wrong: str, answer: ServerAnswer, given: str, repeat: str) -> TestOutcome:
    if not wrong:
        return pass_()
    failure = Failure(expected=wrong, came=answer.summary(), given=given, repeat=repeat)
    return TestOutcome(verdict="fail", failure=failure, calls=1)


def _test(
    kind: TestKind, subject: str, name: str, run: Callable[[TestedServer], TestOutcome]
) -> Test:
    return Test(kind=kind, subject=subject, name=name, run=run)
