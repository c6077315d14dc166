// Points and axes on a canvas. Points that are filtered away stay as a pale ground, so that one sees where the rest lies.

const EDGE = { left: 58, right: 14, top: 12, bottom: 46 };
const ROOM = 0.04; // of the range, beyond the outermost points

class Plot {
  constructor(view, canvas) {
    this.view = view;
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.groups = [];
  }

  // Sizes and scales, from how large the canvas is on the page.
  measure() {
    const { across, up } = this.view;
    const box = this.canvas.getBoundingClientRect();
    this.width = box.width;
    this.height = box.height;
    this.x = scale(across.reach, EDGE.left, box.width - EDGE.right);
    this.y = scale(up.reach, box.height - EDGE.bottom, EDGE.top);
    const { pen, canvas } = this;
    const density = window.devicePixelRatio || 1;
    canvas.width = Math.round(box.width * density);
    canvas.height = Math.round(box.height * density);
    pen.setTransform(density, 0, 0, density, 0, 0);
    const look = getComputedStyle(canvas);
    this.ink = { text: look.color, line: look.getPropertyValue("--line"), font: look.fontFamily };
    this.radius = this.view.pairs.count > 4000 ? 2 : this.view.pairs.count > 600 ? 2.8 : 3.8;
  }

  draw() {
    this.measure();
    if (this.width < 1) return;
    this.axes();
    this.groups = populated(this.view);
    const { shown } = this.view;
    this.points(this.groups.flatMap(({ rows }) => rows.filter((row) => !shown[row])), this.ink.line, 0.9);
    const fewestLast = [...this.groups].sort((a, b) => b.rows.length - a.rows.length);
    for (const { rows, colour } of fewestLast) {
      this.points(rows.filter((row) => shown[row]), colour, this.view.pairs.count > 4000 ? 0.6 : 0.8);
    }
  }

  points(rows, colour, opacity) {
    const { pen, radius } = this;
    pen.globalAlpha = opacity;
    pen.fillStyle = colour;
    for (const row of rows) {
      const [x, y] = this.place(row);
      if (Number.isNaN(x + y)) continue;
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  place(row) {
    return [this.x.to(this.view.across.drawn(row)), this.y.to(this.view.up.drawn(row))];
  }

  axes() {
    const { pen, width, height, ink } = this;
    const { across, up } = this.view;
    pen.clearRect(0, 0, width, height);
    pen.font = `12px ${ink.font}`;
    pen.fillStyle = ink.text;
    pen.lineWidth = 1;
    pen.textAlign = "center";
    for (const value of ticks(...this.x.range, Math.max(2, width / 90))) {
      const x = this.x.to(value);
      this.line(x, EDGE.top, x, height - EDGE.bottom, value === 0);
      pen.fillText(plainNumber(value), x, height - EDGE.bottom + 17);
    }
    pen.textAlign = "right";
    for (const value of ticks(...this.y.range, Math.max(2, height / 60))) {
      const y = this.y.to(value);
      this.line(EDGE.left, y, width - EDGE.right, y, value === 0);
      pen.fillText(plainNumber(value), EDGE.left - 8, y + 4);
    }
    pen.font = `600 12px ${ink.font}`;
    pen.textAlign = "center";
    pen.fillText(across.title, (EDGE.left + width - EDGE.right) / 2, height - 8);
    pen.save();
    pen.translate(12, (EDGE.top + height - EDGE.bottom) / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(up.title, 0, 0);
    pen.restore();
  }

  line(x, y, toX, toY, strong) {
    const { pen, ink } = this;
    pen.strokeStyle = strong ? ink.text : ink.line;
    pen.globalAlpha = strong ? 0.6 : 1;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(toX, toY);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  // The shown pair nearest to a point of the canvas, if it is near.
  nearest(x, y, within) {
    let best = -1;
    let least = within * within;
    for (const row of this.view.order) {
      const [px, py] = this.place(row);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance <= least) {
        least = distance;
        best = row;
      }
    }
    return best;
  }
}

// From the units of an axis to those of the canvas, and back.
function scale([low, high], start, end) {
  const room = (high - low || Math.abs(high) || 1) * ROOM;
  const range = [low - room, high + room];
  const slope = (end - start) / (range[1] - range[0]);
  return { range, to: (value) => start + (value - range[0]) * slope, back: (at) => range[0] + (at - start) / slope };
}
