// What happens when, once all of the above is there.

form.addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
byId("request")?.addEventListener("input", update);
byId("stored")?.addEventListener("change", (event) => {
  if (event.target.value !== "") {
    fillIn(model.stored[Number(event.target.value)]);
  }
});
byId("save").addEventListener("click", () => {
  const url = URL.createObjectURL(new Blob([body()], { type: "application/json" }));
  element("a", { href: url, download: "request.json" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
});
for (const button of form.querySelectorAll("[data-copy]")) {
  // Only pages from this machine or over TLS may write to the clipboard.
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
    byId("status").textContent = "Copied";
  });
}
form.hidden = false;
if (model.stored.length > 0 && byId("stored")) {
  byId("stored").value = "0";
  fillIn(model.stored[0]);
} else {
  update();
}
