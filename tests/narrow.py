"""What a narrow screen cuts off, measured in a real browser."""

CUT_OFF = """(width) => {
  document.querySelectorAll("details").forEach(one => { one.open = true; });
  const hidden = `.skip, .unseen, thead, caption, select${width > 700 ? ", .scroller" : ""}`;
  const seen = [...document.querySelectorAll("body, body *")].filter(
    one => one.checkVisibility() && one.clientWidth && !one.closest(hidden));
  const out = seen.filter(one => one.getBoundingClientRect().right > width + 1
                              || one.getBoundingClientRect().left < -1);
  const scrolled = seen.filter(one => one.scrollWidth > one.clientWidth + 1
    && !one.closest("svg") && getComputedStyle(one).display !== "inline");
  return [...out, ...scrolled].map(one => `${one.tagName} ${one.textContent.slice(0, 40)}`);
}"""


def cut_off(page):
    """What stands beyond the sides of a page, or must be scrolled sideways, all unfolded.

    On a wide screen a table may scroll within itself. A choice ends its own text with three dots.
    """
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    return page.evaluate(CUT_OFF, width)
