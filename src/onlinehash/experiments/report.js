for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const down = column ? head.ariaSort !== "descending" : head.ariaSort === "ascending";
    for (const other of heads) other.ariaSort = "none";
    head.ariaSort = down ? "descending" : "ascending";
    const key = row => column ? row.cells[column].dataset.value : row.cells[0].textContent;
    const order = (a, b) => {
      const x = key(a), y = key(b);
      if (x === "" || y === "") return (x === "") - (y === "");  // what is missing stays below
      return (down ? -1 : 1) * (column ? x - y : x.localeCompare(y));
    };
    body.append(...[...body.rows].sort(order));
  }));
}
