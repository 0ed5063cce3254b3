import pytest

from accord.protocol.forms import asks_for_secret


@pytest.mark.requirement("elicitation.form.no-secrets")
@pytest.mark.parametrize(
    ("name", "schema", "is_secret"),
    [
        ("password", {"type": "string"}, True),
        ("github_api_key", {"type": "string"}, True),
        ("cardNumber", {"type": "integer"}, True),
        ("value", {"type": "string", "title": "Your PIN"}, True),
        ("value", {"type": "string", "title": 3}, False),
        ("token_count", {"type": "integer"}, False),
        ("secret", {"type": "boolean"}, False),
        ("token", {"type": "string", "enum": ["a"]}, False),
        ("token", {"type": "string", "oneOf": []}, False),
    ],
)
def test_secrets_are_known_by_the_name_or_title_of_a_field(name, schema, is_secret):
    assert asks_for_secret(name, schema) is is_secret
