// The page of the HTTP API, made from openapi.json.

function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function typeOf(schema) {
  if (schema.anyOf) return [...new Set(schema.anyOf.map(typeOf))].join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return `list of ${schema.items ? typeOf(schema.items) : "anything"}`;
  return schema.type ?? "anything";
}

function fields(schema) {
  const table = element("table");
  const head = table.createTHead().insertRow();
  for (const name of ["field", "type", "default", "meaning"]) head.append(element("th", name));
  const body = table.createTBody();
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const row = body.insertRow();
    const given = (schema.required ?? []).includes(name) ? "required" : JSON.stringify(field.default) ?? "";
    row.insertCell().append(element("code", name));
    for (const text of [typeOf(field), given, field.description ?? ""]) row.insertCell().textContent = text;
  }
  return table;
}

function describe(path, method, operation, schemas) {
  const details = element("details");
  const summary = element("summary");
  summary.append(element("code", method.toUpperCase(), "method"), element("code", path));
  const [first, ...rest] = operation.description.split("\n\n");
  summary.append(element("div", first));
  details.append(summary, ...rest.map((text) => element("p", text)));
  for (const [media, { schema }] of Object.entries(operation.requestBody?.content ?? {})) {
    details.append(element("h2", `Body: ${media}`));
    if (schema.properties) details.append(fields(schema));
  }
  for (const [status, response] of Object.entries(operation.responses)) {
    const [media, content] = Object.entries(response.content ?? {})[0] ?? ["", {}];
    if (status === "200") {
      details.append(element("h2", `Answer: ${media}`));
      const name = content.schema?.$ref?.split("/").pop();
      if (name) details.append(fields(schemas[name]));
      details.append(element("h2", "Refusals"));
    } else {
      details.append(element("div", `${status}: ${response.description}`));
    }
  }
  return details;
}

const description = await (await fetch("openapi.json")).json();
const list = document.getElementById("operations");
for (const [path, methods] of Object.entries(description.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    list.append(describe(path, method, operation, description.components.schemas));
  }
}
