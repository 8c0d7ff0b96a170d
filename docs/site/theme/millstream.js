// A picture that is wider than the page can be scrolled by keyboard, as code can in this theme.
const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const element of document.querySelectorAll(".picture")) {
  watcher.observe(element);
}
