// Draws the page from its data. Texts become text nodes, never markup.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const main = document.querySelector('main');
  const charts = [];
  const bySize = (a, b) => a.x - b.x;
  for (const part of data.parts.filter(({ kind }) => kind === 'figure')) {
    part.taken.sort(bySize);
    part.diagrams.forEach((diagram) => diagram.lines.forEach((line) => line.points.sort(bySize)));
  }

  // The palette of Okabe and Ito, whose colours the colour-blind tell apart, without its yellow and
  // black, which would not show on a light and on a dark ground. Lines differ in their marks as well.
  const palette = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'];
  const best = '0, 114, 178', worst = '230, 159, 0';
  const marks = ['circle', 'triangle', 'rect', 'rectRot', 'cross', 'star'];
  const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3]];

  function element(name, properties, ...children) {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
  }
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const faded = (colour, alpha) => `${colour}${Math.round(alpha * 255).toString(16).padStart(2, '0')}`;

  // Numbers with three digits and a unit.
  const digits = (value) => String(Number(value.toPrecision(3)));
  const units = {
    'bytes': [[2 ** 30, 'G'], [2 ** 20, 'M'], [2 ** 10, 'K'], [1, '']],
    'microseconds': [[1e6, ' s'], [1e3, ' ms'], [1, ' us'], [1e-3, ' ns']],
    'GB/s': [[1e3, ' TB/s'], [1, ' GB/s'], [1e-3, ' MB/s'], [1e-6, ' kB/s']],
  };
  function format(value, unit) {
    if (value === 0) return '0';
    const scales = units[unit] || [[1, unit ? ` ${unit}` : '']];
    // A value far below the smallest unit is a remainder of arithmetic.
    if (units[unit] && Math.abs(value) < scales[scales.length - 1][0] / 1000) return '0';
    const [factor, name] = scales.find(([least]) => value >= least * 0.9999) || scales[scales.length - 1];
    return digits(value / factor) + name;
  }

  // The places of an axis that get a label: decades, and 2 and 5 times these where there are few.
  function decimalTicks(min, max) {
    const within = (mantissas) => {
      const ticks = [];
      for (let power = Math.floor(Math.log10(min)); 10 ** power <= max; ++power)
        for (const mantissa of mantissas) {
          const value = mantissa * 10 ** power;
          if (value >= min && value <= max) ticks.push(value);
        }
      return ticks;
    };
    const decades = within([1]);
    const finer = decades.length < 4 ? within([1, 2, 5]) : decades;
    if (finer.length > 2) return finer;
    return [0, 1, 2, 3].map((i) => Number((min * (max / min) ** (i / 3)).toPrecision(2)));
  }
  function binaryTicks(min, max) {
    const first = Math.ceil(Math.log2(min)), last = Math.floor(Math.log2(max));
    const step = Math.max(1, Math.ceil((last - first) / 8));
    const ticks = [];
    for (let power = first; power <= last; power += step) ticks.push(2 ** power);
    return ticks;
  }

  function axis(unit, values, more) {
    const positive = values.filter((value) => value > 0);
    const least = Math.min(...positive), most = Math.max(...positive);
    const room = unit === 'bytes' ? 1.15 : 1.25;
    const [min, max] = least === most ? [least / 2, most * 2] : [least / room, most * room];
    const ticks = (unit === 'bytes' ? binaryTicks : decimalTicks)(min, max);
    return {
      type: 'logarithmic', min, max,
      afterBuildTicks: (scale) => { scale.ticks = ticks.map((value) => ({ value })); },
      ticks: { callback: (value) => format(value, unit), color: () => css('--text'), maxRotation: 0, autoSkipPadding: 8 },
      grid: { color: () => css('--grid') },
      ...more,
    };
  }

  // The choices as stretches of the axis: [from, to, name]. They meet half way between sizes.
  function stretches(taken) {
    const found = [];
    taken.forEach(({ x, name }, i) => {
      const from = i > 0 ? Math.sqrt(taken[i - 1].x * x) : x;
      const to = i + 1 < taken.length ? Math.sqrt(x * taken[i + 1].x) : x;
      const last = found[found.length - 1];
      if (last && last.name === name) Object.assign(last, { to, end: x });
      else found.push({ from, to, name, begin: x, end: x });
    });
    return found;
  }

  // Draws the stretches above the plot, each with its name where there is room for it.
  function strip(found, colours) {
    return {
      id: 'taken',
      afterDraw(chart) {
        const { ctx, chartArea: area, scales: { x } } = chart;
        ctx.save();
        ctx.font = '11px sans-serif';
        ctx.textAlign = 'center';
        ctx.textBaseline = 'middle';
        for (const { from, to, name, begin, end } of found) {
          const left = begin === from ? area.left : x.getPixelForValue(from);
          const right = end === to ? area.right : x.getPixelForValue(to);
          ctx.fillStyle = faded(colours.get(name), 0.35);
          ctx.fillRect(left, area.top - 20, right - left - 1, 16);
          if (ctx.measureText(name).width + 6 > right - left) continue;
          ctx.fillStyle = css('--text');
          ctx.fillText(name, (left + right) / 2, area.top - 12);
        }
        ctx.restore();
      },
    };
  }

  function swatch(look) {
    const space = 'http://www.w3.org/2000/svg';
    const drawn = document.createElementNS(space, 'svg');
    drawn.setAttribute('width', 30);
    drawn.setAttribute('height', 10);
    const line = document.createElementNS(space, 'line');
    for (const [name, value] of Object.entries({ x1: 0, x2: 30, y1: 5, y2: 5, stroke: look.colour,
      'stroke-width': look.width + 0.5, 'stroke-dasharray': look.dash.join(' ') }))
      line.setAttribute(name, value);
    drawn.append(line);
    return drawn;
  }

  function looks(diagrams) {
    const found = new Map();
    let next = 0;
    for (const { name, role, shown } of diagrams.flatMap((diagram) => diagram.lines)) {
      if (found.has(name)) continue;
      if (role === 'bound') {
        found.set(name, { colour: '#808080', dash: [4, 4], width: 1.5, mark: false, shown });
        continue;
      }
      found.set(name, { colour: palette[next % palette.length], mark: marks[next % marks.length],
        dash: dashes[Math.floor(next / palette.length) % dashes.length], width: role === 'subject' ? 3 : 1.5, shown });
      ++next;
    }
    return found;
  }

  // A line and the two edges of its band, the second of which is filled towards the first.
  function datasets(line, look) {
    const edge = (which) => line.points.map((point) => ({ x: point.x, y: point[which] || point.y }));
    const hidden = !look.shown;
    const band = { borderWidth: 0, pointRadius: 0, pointHitRadius: 0, line: line.name, isBand: true, hidden };
    return [
      { label: line.name, line: line.name, hidden, data: line.points, borderColor: look.colour, backgroundColor: look.colour,
        borderWidth: look.width, borderDash: look.dash, pointStyle: look.mark || 'circle',
        pointRadius: look.mark ? 4 : 0, pointHoverRadius: 6, clip: 8 },
      { ...band, data: edge('low'), fill: false },
      { ...band, data: edge('high'), fill: '-1', backgroundColor: faded(look.colour, 0.18) },
    ];
  }

  function valueText(point, unit) {
    const spread = point.low > 0 ? ` (${format(point.low, unit)} to ${format(point.high, unit)})` : '';
    return format(point.y, unit) + spread;
  }

  function lineChart(canvas, diagram, found, lookOf, colours) {
    const points = diagram.lines.flatMap((line) => line.points);
    const takenAt = (x) => (found.find(({ begin, end }) => begin <= x && x <= end) || { name: '' }).name;
    const chart = new Chart(canvas, {
      type: 'line',
      data: { datasets: diagram.lines.flatMap((line) => datasets(line, lookOf.get(line.name))) },
      plugins: found.length ? [strip(found, colours)] : [],
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true,
        devicePixelRatio: Math.max(2, window.devicePixelRatio),
        layout: { padding: { top: found.length ? 24 : 4, right: 14 } },
        interaction: { mode: 'nearest', axis: 'x', intersect: false },
        scales: {
          x: axis('bytes', points.map((point) => point.x), {}),
          y: axis(diagram.unit, points.flatMap((point) => [point.y, point.low, point.high]), {}),
        },
        plugins: {
          legend: { display: false },
          tooltip: {
            filter: (item) => !item.dataset.isBand,
            itemSort: (a, b) => b.raw.y - a.raw.y,
            callbacks: {
              title: (items) => (items.length ? `${format(items[0].raw.x, 'bytes')}  ${takenAt(items[0].raw.x)}` : ''),
              label: (item) => `${item.dataset.label}: ${valueText(item.raw, diagram.unit)}  ${item.raw.note}`,
            },
          },
        },
      },
    });
    charts.push(chart);
    return chart;
  }

  function legend(lookOf, own) {
    const list = element('ul', { className: 'legend' });
    for (const [name, look] of lookOf) {
      const button = element('button', { type: 'button', title: 'show or hide this line' }, swatch(look), name);
      button.setAttribute('aria-pressed', String(look.shown));
      button.addEventListener('click', () => {
        const shown = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(shown));
        for (const chart of own) {
          chart.data.datasets.forEach((dataset, i) => {
            if (dataset.line === name) chart.setDatasetVisibility(i, shown);
          });
          chart.update();
        }
      });
      list.append(element('li', {}, button));
    }
    return list;
  }

  // The values of a diagram as a table, for those who cannot see the lines and for programs.
  function values(diagram, takenAt) {
    const sizes = [...new Set(diagram.lines.flatMap((line) => line.points.map((point) => point.x)))].sort((a, b) => a - b);
    const head = element('tr', {}, element('th', { textContent: 'bytes' }),
      ...diagram.lines.map((line) => element('th', { textContent: line.name })),
      ...(takenAt.size ? [element('th', { className: 'text', textContent: 'taken' })] : []));
    const rows = sizes.map((size) => element('tr', {}, element('td', { textContent: format(size, 'bytes') }),
      ...diagram.lines.map((line) => {
        const point = line.points.find(({ x }) => x === size);
        const cell = element('td', { textContent: point ? valueText(point, diagram.unit) : '' });
        if (point) cell.dataset.value = point.y;
        return cell;
      }),
      ...(takenAt.size ? [element('td', { className: 'text', textContent: takenAt.get(size) || '' })] : [])));
    const table = element('table', { className: 'values' }, element('thead', {}, head), element('tbody', {}, ...rows));
    table.dataset.diagram = diagram.title;
    return element('details', {}, element('summary', { textContent: `Values: ${diagram.title}` }),
      element('div', { className: 'scroll' }, table));
  }

  function frame(title, height) {
    const canvas = element('canvas', {});
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${title}; the values are in the table below`);
    const box = element('div', { className: 'frame' }, canvas);
    if (height) box.style.height = `${height}px`;
    return [box, canvas];
  }

  function figure(part, section) {
    const lookOf = looks(part.diagrams), found = stretches(part.taken), own = [];
    const names = [...new Set(found.map(({ name }) => name))];
    const colours = new Map(names.map((name, i) => [name, palette[(palette.length - 1 - i % palette.length)]]));
    section.append(legend(lookOf, own));
    if (found.length)
      section.append(element('p', { className: 'taken', textContent: `Above the lines: ${found.map(({ name, begin, end }) =>
        `${name} ${format(begin, 'bytes')}${end > begin ? ` to ${format(end, 'bytes')}` : ''}`).join(', ')}` }));
    const plots = element('div', { className: 'plots' });
    section.append(plots);
    const canvases = part.diagrams.map((diagram) => {
      const [box, canvas] = frame(`${part.title}: ${diagram.title}`);
      plots.append(element('div', { className: 'plot' }, element('h3', { textContent: diagram.title }), box));
      return canvas;
    }); // all of them first: each takes room from the others
    part.diagrams.forEach((diagram, i) => own.push(lineChart(canvases[i], diagram, found, lookOf, colours)));
    const takenAt = new Map(part.taken.map(({ x, name }) => [x, name]));
    for (const diagram of part.diagrams) section.append(values(diagram, takenAt));
  }

  function table(className, head, rows) {
    return element('div', { className: 'scroll' }, element('table', { className },
      element('thead', {}, element('tr', {}, ...head)), element('tbody', {}, ...rows)));
  }

  function heatMap(part, section) {
    if (part.legend) section.append(element('p', { textContent: part.legend }));
    const head = [element('th', { className: 'text' }), ...part.columns.map((name) => element('th', { textContent: name }))];
    const rows = part.rows.map((row) => element('tr', {}, element('th', { textContent: row.name }),
      ...row.cells.map((cell) => {
        if (!cell) return element('td', {});
        const node = element('td', { textContent: cell.text, title: cell.note });
        node.style.background = `rgba(${cell.shade > 0 ? best : worst}, ${Math.min(1, Math.abs(cell.shade)) * 0.6})`;
        return node;
      })));
    section.append(table('heat', head, rows));
  }

  function barChart(canvas, part, bars) {
    const compared = part.compared && bars.some((bar) => bar.compared !== null);
    const colours = [...palette, '#a0a0a0'];
    const parts = part.parts.map((label, i) => ({ label, stack: 'parts', data: bars.map((bar) => bar.parts[i]),
      backgroundColor: colours[i % colours.length] }));
    if (compared)
      parts.push({ label: part.compared, stack: 'compared', data: bars.map((bar) => bar.compared), backgroundColor: '#808080' });
    const narrow = () => canvas.clientWidth < 500; // names have two lines there
    const scale = (more) => ({ stacked: true, grid: { color: () => css('--grid') }, ...more });
    const chart = new Chart(canvas, {
      type: 'bar',
      data: { labels: bars.map((bar) => bar.name), datasets: parts },
      options: {
        indexAxis: 'y', animation: false, responsive: true, maintainAspectRatio: false,
        devicePixelRatio: Math.max(2, window.devicePixelRatio), layout: { padding: { right: 30 } },
        interaction: { mode: 'index', axis: 'y', intersect: false },
        scales: {
          x: scale({ ticks: { callback: (value) => format(value, part.unit), color: () => css('--text'), maxRotation: 0 } }),
          y: scale({ ticks: { color: () => css('--text'), autoSkip: false,
            font: () => ({ size: narrow() ? 10 : 12 }),
            callback: (index) => (narrow() ? bars[index].name.split(/(?<=\/)/) : bars[index].name) } }),
        },
        plugins: {
          legend: { display: false },
          tooltip: { callbacks: {
            label: (item) => `${item.dataset.label}: ${format(item.raw || 0, part.unit)}`,
            footer: (items) => (items.length ? bars[items[0].dataIndex].note : ''),
          } },
        },
      },
    });
    charts.push(chart);
    return [chart, parts];
  }

  function barValues(part) {
    const cell = (value) => {
      const node = element('td', { textContent: value === null ? '' : format(value, part.unit) });
      if (value !== null) node.dataset.value = value;
      return node;
    };
    const compared = part.compared && part.bars.some((bar) => bar.compared !== null);
    const sum = (values) => part.parts.length > 1 ? [values.reduce((a, b) => a + b, 0)] : [];
    const rows = part.bars.map((bar) => element('tr', {}, element('th', { textContent: bar.name }),
      ...sum(bar.parts).map(cell), ...bar.parts.map(cell),
      ...(compared ? [cell(bar.compared)] : []), element('td', { className: 'text', textContent: bar.note })));
    const head = ['', ...sum([]).map(() => 'sum'), ...part.parts, ...(compared ? [part.compared] : []), '']
      .map((name) => element('th', { textContent: name }));
    return table('values', head, rows);
  }

  function barsPart(part, section) {
    const [box, canvas] = frame(part.title, 60 + 26 * part.bars.length);
    const own = [], lookOf = new Map();
    section.append(box);
    const [chart, parts] = barChart(canvas, part, part.bars);
    own.push(chart);
    for (const dataset of parts) {
      dataset.line = dataset.label;
      lookOf.set(dataset.label, { colour: dataset.backgroundColor, dash: [], width: 9, shown: true });
    }
    box.before(legend(lookOf, own));
    section.append(barValues(part));
  }

  function tablePart(part, section) {
    const head = part.head.map((name) => element('th', { className: 'text', textContent: name }));
    const rows = part.rows.map((row) => element('tr', {}, ...row.map((text) => element('td', { className: 'text', textContent: text }))));
    section.append(table('text', head, rows));
  }

  function drawing(part, section) {
    const parsed = new DOMParser().parseFromString(part.svg, 'image/svg+xml').documentElement;
    section.append(element('div', { className: 'drawing' }, document.adoptNode(parsed)));
  }

  const draw = { 'figure': figure, 'heat map': heatMap, 'bars': barsPart, 'table': tablePart, 'drawing': drawing };
  main.append(element('h1', { textContent: data.title }), element('p', { textContent: data.lead }));
  const facts = element('dl', { className: 'facts' });
  for (const [name, value] of data.facts)
    facts.append(element('dt', { textContent: name }), element('dd', { textContent: value }));
  main.append(facts);
  for (const part of data.parts) {
    const section = element('section', {}, element('h2', { textContent: part.title }));
    main.append(section);
    draw[part.kind](part, section);
  }

  // Colours follow the system's choice; paper is white.
  const restyle = () => charts.forEach((chart) => chart.update());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', restyle);
  addEventListener('beforeprint', () => { document.documentElement.classList.add('printing'); restyle(); });
  addEventListener('afterprint', () => { document.documentElement.classList.remove('printing'); restyle(); });
})();
