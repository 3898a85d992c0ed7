// The script of timeline_html: moves the drawing that is already there; it computes no schedule.
#pragma once

#include <string_view>

namespace eratos::report {

// Letters: k how often the plot is magnified, o the share of the step at the plot's left edge.
inline constexpr std::string_view kTimelineScript = R"script(
(() => {
  'use strict';
  const svg = document.querySelector('svg.timeline');
  const figure = document.getElementById('picture');
  const zoom = svg.querySelector('.zoom');
  const axis = svg.querySelector('.axis');
  const numbers = svg.querySelector('.numbers');
  const tip = document.getElementById('tip');
  const told = document.getElementById('told');
  const data = svg.dataset;
  const left = +data.left, wide = +data.width, from = +data.from, to = +data.to;
  const one = +data.one, top_ = +data.top, bottom = +data.bottom;
  const name = 'http://www.w3.org/2000/svg';
  const still = { axis: axis.innerHTML, numbers: numbers.innerHTML };

  // The browser's own tooltips would cover ours.
  const said = new Map();
  for (const title of svg.querySelectorAll('rect > title, path > title')) {
    said.set(title.parentNode, title.textContent);
    title.remove();
  }
  const rows = [];
  for (const row of zoom.querySelectorAll('.row')) {
    const cells = [];
    for (const rect of row.querySelectorAll('rect[class]')) {
      const number = /^[A-Z]+(\d+)/.exec(said.get(rect) || '');
      if (!number) continue;
      cells.push({ rect, number: number[1], x: +rect.getAttribute('x'),
        w: +rect.getAttribute('width'), y: +rect.getAttribute('y'),
        h: +rect.getAttribute('height'), ink: '' });
    }
    cells.sort((a, b) => a.x - b.x || a.y - b.y);
    rows.push(cells);
  }
  const count = rows.reduce((n, cells) => n + cells.length, 0);

  // White or dark ink, as the drawing chose it: by contrast, WCAG 2.1.
  const inks = new Map();
  const inkOf = (rect) => {
    const key = rect.getAttribute('class');
    if (!inks.has(key)) {
      const rgb = getComputedStyle(rect).fill.match(/\d+/g).map(Number);
      const [r, g, b] = rgb.map((c) => {
        const s = c / 255;
        return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
      });
      const l = 0.2126 * r + 0.7152 * g + 0.0722 * b;
      inks.set(key, 1.05 / (l + 0.05) > (l + 0.05) / 0.067 ? 'lightink' : 'darkink');
    }
    return inks.get(key);
  };

  let k = 1, o = 0, waiting = false, chosen = null;
  const mostZoom = Math.max(1, Math.min(2000, (to - from) / 100));
  const make = (parent, kind, attributes, text) => {
    const e = document.createElementNS(name, kind);
    for (const a in attributes) e.setAttribute(a, attributes[a]);
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  };

  const ticks = () => {
    const span = (to - from) / k, start = from + o * (to - from);
    let step = one;
    while (step % 10 === 0 && span / step < 14) step /= 10;
    for (let i = 0; span / step > 14; ++i) step = i % 3 === 1 ? step / 2 * 5 : step * 2;
    const decimals = Math.max(0, Math.min(9, Math.ceil(Math.log10(one / step) - 1e-9)));
    axis.textContent = '';
    for (let t = Math.ceil(start / step) * step; t <= start + span; t += step) {
      const x = left + (t - start) / span * wide;
      make(axis, 'line', { class: 'grid', x1: x, x2: x, y1: top_ - 6, y2: bottom + 3 });
      make(axis, 'text', { class: 'dim', x, y: bottom + 18, 'text-anchor': 'middle' },
        String(+(t / one).toFixed(decimals)));
    }
  };
  const label = () => {
    numbers.textContent = '';
    const shift = left - k * (left + o * wide);
    let drawn = 0;
    for (const cells of rows) {
      let a = 0, b = cells.length;
      const edge = left + o * wide;
      while (a < b) {
        const m = (a + b) >> 1;
        if (cells[m].x + cells[m].w < edge) a = m + 1; else b = m;
      }
      for (; a < cells.length && cells[a].x * k + shift < left + wide && drawn < 4000; ++a) {
        const c = cells[a];
        const start = Math.max(left, c.x * k + shift);
        const end = Math.min(left + wide, (c.x + c.w) * k + shift);
        const size = Math.min(12, c.h - 2, (end - start - 1.5) / (0.62 * c.number.length));
        if (size < 8) continue;
        make(numbers, 'text', { class: inkOf(c.rect), x: (start + end) / 2, y: c.y + c.h / 2 + size * 0.36,
          style: 'font-size:' + size + 'px' }, c.number);
        ++drawn;
      }
    }
  };
  const draw = () => {
    waiting = false;
    zoom.setAttribute('transform',
      'translate(' + (left - k * (left + o * wide)) + ',0) scale(' + k + ',1)');
    if (count > 0) zoom.classList.toggle('dense', count > rows.length * wide * k / 4);
    if (k === 1) {
      axis.innerHTML = still.axis;
      numbers.innerHTML = still.numbers;
    } else {
      ticks();
      label();
    }
    document.getElementById('out').disabled = k <= 1;
    document.getElementById('fit').disabled = k === 1;
    document.getElementById('back').disabled = o <= 0;
    document.getElementById('on').disabled = o >= 1 - 1 / k;
  };
  const set = (newK, newO) => {
    k = Math.max(1, Math.min(mostZoom, newK));
    o = Math.max(0, Math.min(1 - 1 / k, newO));
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(draw);
  };
  // `at` is a share of the plot's width and stays where it is.
  const zoomAt = (factor, at) => {
    const next = Math.max(1, Math.min(mostZoom, k * factor));
    set(next, o + at / k - at / next);
  };
  const pan = (share) => set(k, o + share / k);
  // Pixels of the screen to pixels of the drawing.
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
  };
  const share = (event) => Math.max(0, Math.min(1, (place(event) - left) / wide));

  figure.addEventListener('wheel', (event) => {
    const x = place(event);
    if (x < left || x > left + wide) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan((event.deltaX || event.deltaY) * lines / wide);
    } else {
      zoomAt(Math.exp(-event.deltaY * lines * 0.002), share(event));
    }
  }, { passive: false });

  const held = new Map();
  figure.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    held.set(event.pointerId, event);
    svg.setPointerCapture(event.pointerId);
    svg.classList.add('held-down');
  });
  figure.addEventListener('pointermove', (event) => {
    const before = held.get(event.pointerId);
    if (!before) {
      hover(event);
      return;
    }
    if (held.size === 2) {
      const other = [...held.values()].find((e) => e.pointerId !== event.pointerId);
      const was = Math.abs(before.clientX - other.clientX);
      const now = Math.abs(event.clientX - other.clientX);
      if (was > 8 && now > 8) zoomAt(now / was, (share(event) + share(other)) / 2);
    } else {
      pan((place(before) - place(event)) / wide);
    }
    held.set(event.pointerId, event);
    tip.hidden = true;
  });
  const release = (event) => {
    held.delete(event.pointerId);
    if (held.size === 0) svg.classList.remove('held-down');
  };
  figure.addEventListener('pointerup', release);
  figure.addEventListener('pointercancel', release);
  figure.addEventListener('pointerleave', () => { tip.hidden = true; });
  figure.addEventListener('dblclick', (event) => zoomAt(2, share(event)));

  const hover = (event) => {
    const text = said.get(event.target);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const room = document.documentElement;
    const x = Math.min(event.clientX + 14, room.clientWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18;
    const y = below + tip.offsetHeight > room.clientHeight
      ? event.clientY - tip.offsetHeight - 12 : below;
    tip.style.transform = 'translate(' + Math.max(4, x) + 'px,' + Math.max(4, y) + 'px)';
  };

  const choose = (row, i) => {
    if (!rows[row] || !rows[row][i]) return;
    if (chosen) rows[chosen.row][chosen.i].rect.classList.remove('chosen');
    chosen = { row, i };
    const c = rows[row][i];
    c.rect.classList.add('chosen');
    told.textContent = said.get(c.rect).replace(/\n/g, ', ');
    const x = (c.x - left) / wide, w = c.w / wide;
    if (x < o || x + w > o + 1 / k) set(k, x + w / 2 - 0.5 / k);
  };
  const nearest = (row, x) => {
    let best = 0;
    rows[row].forEach((c, i) => {
      if (Math.abs(c.x - x) < Math.abs(rows[row][best].x - x)) best = i;
    });
    return best;
  };
  const step = (by) => chosen ? choose(chosen.row, chosen.i + by) : choose(0, 0);
  const turn = (by) => {
    if (!chosen) { choose(0, 0); return; }
    const row = chosen.row + by;
    if (rows[row] && rows[row].length) choose(row, nearest(row, rows[chosen.row][chosen.i].x));
  };
  const middle = () => {
    if (!chosen) return 0.5;
    const c = rows[chosen.row][chosen.i];
    const at = ((c.x + c.w / 2 - left) / wide - o) * k;
    return at < 0 || at > 1 ? 0.5 : at;
  };
  const keys = {
    '+': () => zoomAt(1.5, middle()), '=': () => zoomAt(1.5, middle()),
    '-': () => zoomAt(1 / 1.5, middle()), '0': () => set(1, 0), Home: () => set(k, 0),
    End: () => set(k, 1), ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
    ArrowUp: () => turn(-1), ArrowDown: () => turn(1), n: () => step(1), p: () => step(-1),
  };
  figure.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const press = (id, act) => document.getElementById(id).addEventListener('click', act);
  press('in', () => zoomAt(2, middle()));
  press('out', () => zoomAt(0.5, middle()));
  press('fit', () => set(1, 0));
  press('back', () => pan(-0.5));
  press('on', () => pan(0.5));
  document.getElementById('tools').hidden = false;
  draw();
})();
)script";

}  // namespace eratos::report
