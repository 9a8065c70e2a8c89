// The screens by name. Each has a title and show(root, rest, page): root is the element to fill, rest the parts of the
// address behind the name, page the document "page".

export const SCREENS = {};
