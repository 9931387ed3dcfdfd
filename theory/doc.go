// Package theory predicts the error of an estimate before anything is drawn: [Of] gives the moments of kernel ×
// family × coupling at a pair, [Warning] says when a combination is known to hurt. It works on plain numbers and never
// samples. The formulas behind it are in package theory/forms and in docs/theory.md.
package theory
