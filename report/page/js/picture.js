"use strict";
// Picture: what is computed pixel by pixel, and drawn as one image.

let sheet = null; // {canvas, image}, of the size of the last picture: new ones would cost more than the drawing

// blankSheet returns {canvas, image, pixels}: an image of so many pixels of the screen, all of them clear; pixels has it as a number a
// pixel, as packColour makes them. It is one sheet for all: draw it before the next is asked for.
function blankSheet(width, height) {
  if (!sheet || sheet.image.width !== width || sheet.image.height !== height) {
    const image = new ImageData(width, height);
    sheet = { canvas: element("canvas", { width, height }), image, pixels: new Uint32Array(image.data.buffer) };
  }
  sheet.pixels.fill(0);
  return sheet;
}

// paint puts the image of a sheet on its canvas, and returns that.
function paint({ canvas, image }) {
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// packColour returns a pixel of red, green, blue and opacity, 0 to 255, in the order of the bytes of this machine.
function packColour(red, green, blue, opacity) { return new Uint32Array(Uint8ClampedArray.of(red, green, blue, opacity).buffer)[0]; }
