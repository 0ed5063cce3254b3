"""Which hosts are taken, and what an address counts as."""

from accord.http.rules.addresses import address_kind, client_network, host_fault, is_loopback
from support.tables import cases


@cases(
    ("host", "fault"),
    [
        ("login.example.com", None),
        ("login.example.com.", None),
        ("auth_1", None),
        ("127.0.0.1", None),
        ("::1", None),
        ("0x7f.example", None),
        ("127.1", "number"),
        ("0x", "number"),
        ("1.2.3.4.", "number"),
        ("256.1.1.1", "number"),
        ("::1%eth0", "IPv6"),
        ("v1.fe80::a", "IPv6"),
        ("b\u00fccher.example", "ASCII"),
        ("%65vil.com", "characters"),
        ("a..b", "characters"),
        ("a b", "characters"),
        ("", "characters"),
    ],
)
def test_a_host_is_a_name_or_a_canonical_address(host, fault):
    found = host_fault(host)
    assert found is None if fault is None else fault in (found or "")


@cases(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_an_ipv6_network_of_one_customer_counts_as_one_source(address, source):
    assert client_network(address) == source


@cases(
    ("host", "is_ours"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("app.localhost", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("example.com", False),
    ],
)
def test_a_loopback_host_is_a_name_or_an_address(host, is_ours):
    assert is_loopback(host) is is_ours


@cases(
    ("address", "kind"),
    [
        ("93.184.216.34", "public"),
        ("10.0.0.1", "private"),
        ("127.0.0.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("224.0.0.1", "unusable"),
        ("fe80::1%eth0", "link-local"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("2606:4700::1111", "public"),
        *[(each, "private") for each in ("fec0::1", "feff:ffff::1", "3fff::1", "3fff:fff::1")],
        *[(each, "private") for each in ("192.88.99.1", "192.0.0.8", "192.0.0.9", "192.0.0.170")],
        *[("::ffff:192.88.99.1", "private"), ("2002:c000:8::1", "private")],
        *[(each, "public") for each in ("192.88.98.1", "192.0.1.1", "3ffe::1", "2a00::1")],
    ],
)
def test_an_address_counts_by_where_it_leads(address, kind):
    assert address_kind(address) == kind
