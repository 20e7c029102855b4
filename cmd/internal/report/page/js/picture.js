"use strict";
// Picture: what a mark computes pixel by pixel, and draws as one image.

// sheetOf returns the sheet of a mark, {canvas, image, pixels}: an image of so many pixels of the screen, all of them clear. pixels has
// them as numbers, as packColour makes them. A mark keeps its sheet: a new canvas would take longer than the drawing.
function sheetOf(mark, width, height) {
  if (!mark.sheet || mark.sheet.image.width !== width || mark.sheet.image.height !== height) {
    const image = new ImageData(width, height);
    mark.sheet = { canvas: element("canvas", { width, height }), image, pixels: new Uint32Array(image.data.buffer) };
  }
  mark.sheet.pixels.fill(0);
  return mark.sheet;
}

// paint puts the image of a sheet on its canvas, and returns that.
function paint({ canvas, image }) {
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// packColour returns a pixel of red, green, blue and opacity, 0 to 255, in the order of the bytes of this machine.
function packColour(red, green, blue, opacity) { return new Uint32Array(Uint8ClampedArray.of(red, green, blue, opacity).buffer)[0]; }
