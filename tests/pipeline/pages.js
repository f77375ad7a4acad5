// Body of a function: what a reader of any page would note of it, with a ruler and a light meter.
const parts = text => (text.match(/[\d.]+/g) || []).map(Number);
const luminance = colour => {
  const [red, green, blue] = colour.map(part => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const background = element => {
  for (let place = element; place; place = place.parentElement) {
    const found = parts(getComputedStyle(place).backgroundColor);
    if (found.length === 3 || found[3] > 0) return found.slice(0, 3);
  }
  return [255, 255, 255];
};
const seen = element => element.checkVisibility() && element.getBoundingClientRect().width > 0;
const contrasts = [];
for (const element of document.body.querySelectorAll("*")) {
  const own = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
  if (!own || !seen(element) || element.closest("style, svg title")) continue;
  const style = getComputedStyle(element);
  const colour = parts(element.closest("svg") ? style.fill : style.color).slice(0, 3);
  const [one, two] = [colour, background(element)].map(luminance);
  contrasts.push([(Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05), element.textContent.slice(0, 60)]);
}
const root = document.documentElement;
const verdict = document.querySelector(".verdict");
return {
  width: root.scrollWidth,
  viewport: root.clientWidth,
  outside: [...document.body.querySelectorAll("p, dl, nav, h1, h2, h3, figure, .wide, details, header, main")]
    .filter(each => seen(each) && each.getBoundingClientRect().right > root.clientWidth + 0.5)
    .map(each => each.tagName + " " + each.textContent.trim().slice(0, 40)),
  cut: [...document.querySelectorAll(".wide")].filter(each => seen(each) && each.scrollWidth > each.clientWidth + 1)
    .map(each => each.querySelector("table").id),
  tables: [...document.querySelectorAll("table")].filter(seen).length,
  boxed: [...document.querySelectorAll("table")].every(each => each.closest(".wide")),
  drawings: [...document.querySelectorAll("figure svg")].filter(seen).map(svg => {
    const box = svg.getBoundingClientRect();
    const room = svg.closest("figure").getBoundingClientRect();
    return {alt: svg.getAttribute("aria-label"), role: svg.getAttribute("role"), share: box.width / room.width,
            right: box.right, texts: [...svg.querySelectorAll("text")].map(each => each.textContent),
            letters: Math.min(...[...svg.querySelectorAll("text")].map(each => each.getBoundingClientRect().height))};
  }),
  figures: [...document.querySelectorAll("figure")].map(each => ({
    title: (each.querySelector(".figure-title") || {textContent: ""}).textContent,
    caption: (each.querySelector("figcaption") || {textContent: ""}).textContent})),
  verdict: verdict ? [verdict.textContent, verdict.getBoundingClientRect().bottom + scrollY] : null,
  sections: document.querySelectorAll("main h2").length,
  contents: [...document.querySelectorAll("nav a")].map(each => [each.getAttribute("href"), seen(each)]),
  dangling: [...document.querySelectorAll('a[href^="#"]')].filter(each => !document.getElementById(each.getAttribute("href").slice(1))).length,
  twice: [...document.querySelectorAll("[id]")].map(each => each.id).filter((id, at, all) => all.indexOf(id) !== at),
  paper: luminance(background(document.body)),
  hidden: [...document.querySelectorAll("details table")].filter(each => !seen(each)).length,
  least: contrasts.sort((one, two) => one[0] - two[0])[0],
};
