// Package calc is the calculator behind "randfeat eval": every closed form, optimised parameter, feature map and
// coupling step of the library under a name, with typed inputs and results as JSON.
//
// Other languages can use it to evaluate the formulas, or to check their own implementation against ours. [Entries] is
// the list of formulas; [Reader] reads cases in the schema of testdata/closed_forms.json; [Table.Find] and [Entry.Eval]
// answer a case; [Compare] judges the answer by the tolerances of the case; [Encode] writes it.
//
// # Files
//
//   - entry.go, table.go: an entry, and the list of all entries.
//   - input.go: types of inputs and their strict decoding.
//   - value.go: results and their encoding.
//   - case.go, compare.go: reading cases and comparing results.
//   - kernel.go, variance.go, parameter.go, coupled.go, concentration.go, hybrid.go, orf.go, dark.go, features.go,
//     coupling.go, attention.go: one group of formulas each.
package calc
