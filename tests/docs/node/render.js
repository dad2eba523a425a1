// Draws each `.d2` of docs/diagrams as an SVG beside it: `make diagrams`. The picture has colours for light and for dark,
// its fonts, and at its end the digest of the text that it was made from.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

import { D2 } from "@terrastruct/d2";

const folder = new URL("../../../docs/diagrams/", import.meta.url);
const d2 = new D2();
for (const name of readdirSync(folder).filter((each) => each.endsWith(".d2"))) {
  const text = readFileSync(new URL(name, folder), "utf8");
  const { diagram, renderOptions } = await d2.compile(text, { layout: "elk" });
  const picture = await d2.render(diagram, { ...renderOptions, themeID: 0, darkThemeID: 200, pad: 12, scale: 0.75, noXMLTag: true });
  const digest = createHash("sha256").update(text).digest("hex");
  writeFileSync(new URL(name.replace(/d2$/, "svg"), folder), `${picture.trimEnd()}\n<!-- made from ${digest} -->\n`);
}
process.exit(0); // its worker would go on
