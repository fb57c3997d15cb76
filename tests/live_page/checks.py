"""What is asked of the whole page at once, in the browser's own language. Each is a list of offenders."""

CUT_OFF = """() => [...document.querySelectorAll("dd, dt, button, .badge, h1, h2:not(.unseen), .key")]
  .filter((node) => node.clientWidth && node.scrollWidth > node.clientWidth + 1)
  .concat([...document.querySelectorAll(".card dl")].filter((list) =>
    list.lastChild.getBoundingClientRect().right > list.closest(".card").getBoundingClientRect().right - 6))
  .map((node) => node.outerHTML)"""

# Contrast of every text with what is behind it, by WCAG 2.2 (1.4.3): 4.5, or 3 where the text is large.
TOO_FAINT = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const parse = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = color.slice(0, 3).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const faint = [];
  for (const node of document.querySelectorAll("body *")) {
    const text = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!text || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const color = parse(node instanceof SVGElement ? style.fill : style.color);
    const [low, high] = [light(color), light(behind(node))].sort((one, other) => one - other);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) faint.push(`${node.outerHTML}: ${ratio.toFixed(2)}`);
  }
  return faint;
}"""
