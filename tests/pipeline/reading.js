// Body of a function: what a reader with a ruler and a light meter would note of the page.
const luminance = colour => {
  const [red, green, blue] = colour.map(part => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const parts = text => text.match(/[\d.]+/g).map(Number);
const background = element => {
  for (let place = element; place; place = place.parentElement) {
    const found = parts(getComputedStyle(place).backgroundColor);
    if (found.length === 3 || found[3] > 0) return found.slice(0, 3);
  }
  return [255, 255, 255];  // the canvas, which follows the reader's scheme only where a page says that it can
};
const contrasts = [];
for (const element of document.body.querySelectorAll("*")) {
  const own = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
  if (!own || element.closest("svg, style")) continue;
  const [one, two] = [parts(getComputedStyle(element).color), background(element)].map(luminance);
  contrasts.push([(Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05), element.tagName]);
}
return {
  title: document.title,
  state: document.querySelector("#facts tbody td").textContent,
  banners: [...document.querySelectorAll(".restricted")].map(each => each.textContent),
  width: document.documentElement.scrollWidth,
  viewport: document.documentElement.clientWidth,
  headings: [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map(each => [each.tagName, each.textContent]),
  tables: Object.fromEntries([...document.querySelectorAll("table")].map(table =>
    [table.id, [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent.trim()))])),
  figures: [...document.querySelectorAll("figure svg")].filter(svg => svg.checkVisibility()).map(svg => {
    const box = svg.getBoundingClientRect();
    return [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height, box.width, box.height];
  }),
  texts: [...document.querySelectorAll("figure svg text")].map(each => each.textContent),
  worst: contrasts.sort((one, two) => one[0] - two[0])[0],
  scheme: matchMedia("(prefers-color-scheme: dark)").matches,
};
