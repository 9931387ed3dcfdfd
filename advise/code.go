package advise

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// code returns the Go code that makes the map: the spec before the fit, which is then repeated on the caller's
// rows.
func code(spec randfeat.Spec, f family.Family, fits, oneSet bool) string {
	var b strings.Builder
	k := fmt.Sprintf("kernel.Kernel{Kind: kernel.%s", capital(spec.Kernel.Kind.String()))
	if spec.Kernel.Scale != 0 {
		k += fmt.Sprintf(", Scale: %s", number(spec.Kernel.Scale))
	}
	if !spec.Kernel.M.IsEmpty() {
		k += ", M: matrix" // the caller's
	}
	k += "}"
	if spec.Kernel.Kind == kernel.Softmax && spec.Kernel.M.IsEmpty() &&
		spec.Kernel.Scale == kernel.Attention(spec.Dim).Scale {
		k = fmt.Sprintf("kernel.Attention(%d)", spec.Dim)
	}
	fmt.Fprintf(&b, "spec := randfeat.Spec{\n\tKernel:   %s,\n\tFamily:   %s,\n\tCoupling: %s,\n\tDim:      %d, M: %d, Seed: %d,\n}\n",
		k, literal(reflect.ValueOf(f)), literal(reflect.ValueOf(spec.Coupling)), spec.Dim, spec.M, spec.Seed)
	if fits {
		rows := "queries, keys"
		if oneSet {
			rows = "rows, rows"
		}
		fmt.Fprintf(&b, "spec, err := randfeat.Fit(spec, %s) // float64 rows; the fitted spec has a JSON form\nif err != nil {\n\treturn err\n}\n",
			rows)
	}
	b.WriteString("m, err := randfeat.New[float32](spec)\n")
	return b.String()
}

// literal returns a value as Go source, without its zero fields.
func literal(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Interface:
		return literal(v.Elem())
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			if f := v.Field(i); v.Type().Field(i).IsExported() && !f.IsZero() {
				name := v.Type().Field(i).Name + ": "
				fields = append(fields, name+literal(f))
			}
		}
		return v.Type().String() + "{" + strings.Join(fields, ", ") + "}"
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, literal(v.Index(i)))
		}
		return v.Type().String() + "{" + strings.Join(items, ", ") + "}"
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Float64:
		return number(v.Float())
	case reflect.Complex128:
		return fmt.Sprintf("complex(%s, %s)", number(real(v.Complex())), number(imag(v.Complex())))
	}
	return fmt.Sprint(v.Interface())
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// attentionCode returns the Go code that chooses and runs the method of every head.
func attentionCode(tol float64, causal bool, seed uint64) string {
	vis := "attention.Visibility{}"
	if causal {
		vis = "attention.Visibility{Causal: true}"
	}
	return fmt.Sprintf("choice, err := choose.Choose(choose.Options{Tol: %s, Seed: %d}, %s, 0, q, k, v)\n", number(tol), seed,
		vis) + "if err != nil {\n\treturn err\n}\n" +
		"a, err := choose.New(choice) // a.Forward(out, q, k, v)\n"
}
