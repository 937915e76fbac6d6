/*
 * Elements of the document. No markup is ever made of text: elements and text nodes alone.
 */
const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; texts become text nodes and nothing else. */
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

const drawn = (name, attributes = {}, ...children) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

export { drawn, element };
