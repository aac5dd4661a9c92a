// Looks at a page of perf/report as a reader would, and leaves what it sees as JSON behind the page:
// texts and values, labels that overlap or are cut off, what the pointer shows, contrast.
'use strict';
(async () => {
  const boxes = [];
  const problems = [];
  const seen = { problems, tables: [], charts: [], facts: {}, dark: matchMedia('(prefers-color-scheme: dark)').matches };

  // Chart.js answers events in the next frame.
  const settled = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));

  function addBox(name, rectangle) {
    if (rectangle.width > 0 && rectangle.height > 0)
      boxes.push({ name, left: rectangle.left, right: rectangle.right, top: rectangle.top, bottom: rectangle.bottom });
  }
  function textBox(node) {
    const range = document.createRange();
    range.selectNodeContents(node);
    return range.getBoundingClientRect();
  }

  // The labels of an axis are pixels: their places follow from Chart.js's public interface.
  function addTicks(chart, canvas) {
    const { ctx } = chart;
    const font = Chart.defaults.font;
    ctx.font = `${font.size}px ${font.family}`;
    for (const scale of Object.values(chart.scales)) {
      if (scale.labelRotation) problems.push(`labels of an axis are turned by ${scale.labelRotation} degrees`);
      scale.ticks.forEach((tick, i) => {
        if (!tick.label) return;
        const lines = [].concat(tick.label), size = Array.isArray(tick.label) ? 10 : font.size; // in a narrow plot
        ctx.font = `${size}px ${font.family}`;
        const width = Math.max(...lines.map((line) => ctx.measureText(line).width)), at = scale.getPixelForTick(i);
        const flat = scale.isHorizontal();
        const left = canvas.left + (flat ? at - width / 2 : scale.right - width - 11);
        const top = canvas.top + (flat ? scale.top + 11 : at - font.size / 2);
        const label = { left, right: left + width, top, bottom: top + font.size, width, height: font.size };
        addBox(`label ${tick.label}`, label);
        if (label.left < canvas.left - 1 || label.right > canvas.right + 1 || label.top < canvas.top - 1 ||
            label.bottom > canvas.bottom + 1)
          problems.push(`the label ${tick.label} is cut off`);
      });
    }
    const area = chart.chartArea;
    addBox('the lines', { left: canvas.left + area.left, right: canvas.left + area.right, top: canvas.top + area.top,
      bottom: canvas.top + area.bottom, width: area.width, height: area.height });
  }

  // The lines that the pointer shows at the first value of the first line.
  async function hovered(chart) {
    const point = chart.getDatasetMeta(0).data[0], canvas = chart.canvas.getBoundingClientRect();
    chart.canvas.dispatchEvent(new MouseEvent('mousemove', { bubbles: true, clientX: canvas.left + point.x, clientY: canvas.top + point.y }));
    await settled();
    return (chart.tooltip.body || []).flatMap((part) => part.lines);
  }

  async function lookAtChart(canvas) {
    const chart = Chart.getChart(canvas);
    addTicks(chart, canvas.getBoundingClientRect());
    const shown = () => chart.data.datasets.filter((_, i) => chart.isDatasetVisible(i)).length;
    const look = { names: chart.data.datasets.map((dataset) => dataset.line || dataset.label), shown: shown(),
      points: chart.data.datasets[0].data.length };
    const button = canvas.closest('section').querySelector('.legend button');
    button.click();
    look.shownWithoutFirst = shown();
    look.pressed = button.getAttribute('aria-pressed');
    button.click();
    look.shownAgain = shown();
    look.pointer = await hovered(chart);
    seen.charts.push(look);
  }

  function lookAtTable(table) {
    const texts = (row) => [...row.children].map((cell) => cell.textContent);
    const values = (row) => [...row.children].map((cell) => (cell.dataset.value === undefined ? null : Number(cell.dataset.value)));
    const rows = [...table.querySelectorAll('tbody tr')];
    seen.tables.push({ diagram: table.dataset.diagram || '', kind: table.className, head: texts(table.querySelector('thead tr')),
      texts: rows.map(texts), values: rows.map(values) });
  }

  function findOverlaps() {
    for (const node of document.querySelectorAll('h1, h2, h3, p, dt, dd, button, summary, .heat td, .heat th, main svg text'))
      addBox(node.textContent.slice(0, 40), node.tagName === 'BUTTON' ? node.getBoundingClientRect() : textBox(node));
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
        problems.push(`"${a.name}" and "${b.name}" overlap`);
    }));
    if (document.documentElement.scrollWidth > innerWidth) problems.push('the page is wider than the window');
  }

  function contrast(first, second) {
    const luminance = (colour) => {
      const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
      const [red, green, blue] = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const [low, high] = [luminance(first), luminance(second)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }
  function leastContrast() {
    const ground = getComputedStyle(document.body).backgroundColor;
    return Math.min(...[...document.querySelectorAll('h1, h2, h3, p, dt, dd, summary')]
      .map((node) => contrast(getComputedStyle(node).color, ground)));
  }

  await settled();
  for (const canvas of document.querySelectorAll('canvas')) await lookAtChart(canvas);
  document.querySelectorAll('table').forEach(lookAtTable);
  findOverlaps();
  document.querySelectorAll('dt').forEach((name) => { seen.facts[name.textContent] = name.nextSibling.textContent; });
  seen.title = document.querySelector('h1').textContent;
  seen.tab = document.title;
  seen.boxes = boxes.length;
  seen.drawings = [...document.querySelectorAll('.drawing svg')].map((drawing) => drawing.textContent);
  seen.contrast = leastContrast();
  dispatchEvent(new Event('beforeprint'));
  seen.printedGround = getComputedStyle(document.body).backgroundColor;
  dispatchEvent(new Event('afterprint'));
  return seen;
})().catch((error) => ({ problems: [String(error.stack)] })).then((seen) => {
  const text = JSON.stringify(seen).replace(/[<>&]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`);
  document.body.append(Object.assign(document.createElement('pre'), { textContent: `SEEN${text}SEEN` }));
});
