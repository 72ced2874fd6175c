"""What axe objects to on a page, and what a finger may miss."""

from axe_playwright_python.base import AXE_SCRIPT

# Without "preload": it fetches style sheets by wrong addresses, and those errors would be taken for the page's.
# Only the violations leave the page; all that axe has found is many times as much.
RUN = """async ([context, only, without]) => {
    const rules = Object.fromEntries(without.map(rule => [rule, {enabled: false}]));
    const options = {resultTypes: ["violations"], preload: false, rules, ...(only ? {runOnly: only} : {})};
    const {violations} = await axe.run(context ?? document, options);
    return violations.map(v => [v.id, v.nodes.map(node => node.html)]);
}"""

SMALL = """within => [...document.querySelectorAll(`${within} :is(button, select, textarea, input, [role=slider])`)]
    .filter(e => e.getClientRects().length && e.getBoundingClientRect().height < 24).map(e => e.outerHTML)"""


def violations(page, context=None, only=None, without=()):
    """Each rule that is broken, with the elements that break it."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    return page.evaluate(RUN, [context, only, list(without)])


def too_small(page, within="body"):
    """What can be pressed or set, and is less than 24 pixels high."""
    return page.evaluate(SMALL, within)
