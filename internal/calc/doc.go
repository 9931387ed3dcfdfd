// Package calc is the calculator behind "randfeat eval": every closed form, optimised parameter, feature map and
// coupling step of the library under a name, with typed inputs and results as JSON.
//
// It lets any language use the formulas, and check its own implementation against ours. [Entries] is the list of
// names; [Reader] reads cases in the schema of testdata/closed_forms.json; [Compare] is its rule for tolerances.
package calc
