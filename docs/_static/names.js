// Names that the theme leaves out: for readers of screens.
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll(".search-button__button")) button.removeAttribute("aria-label");
  for (const summary of document.querySelectorAll(".bd-sidebar summary, .bd-links summary")) {
    const link = summary.closest("li")?.querySelector("a");
    summary.setAttribute("aria-label", `Pages of ${link ? link.textContent.trim() : "this part"}`);
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    link.setAttribute("aria-label", link.textContent.trim());
  }
  for (const list of document.querySelectorAll(".citation-list[role=list]")) list.removeAttribute("role");
});
// On paper every solution is shown.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
