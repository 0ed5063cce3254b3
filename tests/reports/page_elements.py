"""The elements of a page, for tests that look at what a browser would see."""

from html.parser import HTMLParser

VOID = {"meta", "input", "br", "rect", "circle", "path", "use"}


class PageElements(HTMLParser):
    """The elements and texts of a page; fails where elements are not closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open = []
        self.all = []
        self.texts = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def with_class(self, name):
        return [attrs for _, attrs in self.all if name in (attrs.get("class") or "").split()]

    def attributes(self, name):
        return [attrs[name] for _, attrs in self.all if name in attrs]


def section_text(page, id):
    """Return the text of the section with a heading of this id."""
    begin = page.index(f'<h2 id="{id}">')
    return PageElements(page[begin : page.index("</section>", begin)]).text
