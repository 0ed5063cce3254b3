"""The URLs of a site that has none of its own."""

urlpatterns: list[object] = []
