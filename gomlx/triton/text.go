package triton

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Text returns the kernel as an MLIR module of Triton's dialect.
func (k *Kernel) Text() string {
	var args []string
	for _, a := range k.args {
		args = append(args, fmt.Sprintf("%s: %s {tt.divisibility = 16 : i32}", a.value.name(), a.value.mlir()))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module {\n  tt.func public @%s(%s) attributes {noinline = false} {\n", k.Name,
		strings.Join(args, ", "))
	writeOps(&b, k.body, "    ")
	b.WriteString("    tt.return\n  }\n}\n")
	return b.String()
}

func (v Value) name() string {
	if v.label != "" {
		return "%" + v.label
	}
	return "%" + strconv.Itoa(v.id)
}

func names(all []Value) string {
	var s []string
	for _, v := range all {
		s = append(s, v.name())
	}
	return strings.Join(s, ", ")
}

func types(all []Value) string {
	var s []string
	for _, v := range all {
		s = append(s, v.mlir())
	}
	return strings.Join(s, ", ")
}

// number writes a constant. MLIR wants a point in floating-point numbers.
func number(e Elem, x float64) string {
	switch {
	case e == I1:
		return strconv.FormatBool(x != 0)
	case !e.Float():
		return strconv.FormatInt(int64(x), 10)
	case math.IsInf(x, -1):
		return "0xFF800000"
	}
	s := strconv.FormatFloat(float64(float32(x)), 'e', 8, 64)
	return s
}

// binaries are the names of operations on floating-point numbers and on integers.
var binaries = map[string][2]string{
	"add": {"arith.addf", "arith.addi"}, "sub": {"arith.subf", "arith.subi"}, "mul": {"arith.mulf", "arith.muli"},
	"div": {"arith.divf", "arith.divsi"}, "rem": {"", "arith.remsi"}, "max": {"arith.maxnumf", "arith.maxsi"},
	"min": {"arith.minnumf", "arith.minsi"}, "and": {"", "arith.andi"},
}

func writeOps(b *strings.Builder, ops []op, indent string) {
	for _, o := range ops {
		b.WriteString(indent)
		if len(o.out) == 1 && o.code != "for" {
			b.WriteString(o.out[0].name() + " = ")
		}
		if o.code == "for" {
			writeLoop(b, o, indent)
		} else {
			b.WriteString(line(o, indent))
		}
		b.WriteString("\n")
	}
}

// line returns an operation without its result.
func line(o op, indent string) string {
	if two, ok := binaries[o.code]; ok {
		name := two[0]
		if !o.in[0].elem.Float() {
			name = two[1]
		}
		return fmt.Sprintf("%s %s : %s", name, names(o.in), o.in[0].mlir())
	}
	from := ""
	if len(o.in) > 0 {
		from = o.in[0].name()
	}
	change := func(name, attributes string) string {
		return fmt.Sprintf("%s %s%s : %s -> %s", name, from, attributes, o.in[0].mlir(), o.out[0].mlir())
	}
	switch o.code {
	case "constant":
		if x := number(o.out[0].elem, o.num); len(o.out[0].shape) > 0 {
			return fmt.Sprintf("arith.constant dense<%s> : %s", x, o.out[0].mlir())
		} else if o.out[0].elem == I1 {
			return "arith.constant " + x
		} else {
			return fmt.Sprintf("arith.constant %s : %s", x, o.out[0].mlir())
		}
	case "program":
		return fmt.Sprintf("tt.get_program_id %c : i32", "xyz"[o.ints[0]])
	case "range":
		return fmt.Sprintf("tt.make_range {end = %d : i32, start = 0 : i32} : %s", o.out[0].shape[0], o.out[0].mlir())
	case "splat", "broadcast":
		return change("tt."+o.code, "")
	case "expand":
		return change("tt.expand_dims", fmt.Sprintf(" {axis = %d : i32}", o.ints[0]))
	case "trans":
		return change("tt.trans", " {order = array<i32: 1, 0>}")
	case "addptr":
		return fmt.Sprintf("tt.addptr %s : %s", names(o.in), types(o.in))
	case "load", "store":
		return fmt.Sprintf("tt.%s %s : %s", o.code, names(o.in), o.in[0].mlir())
	case "compare":
		name, mode := "arith.cmpf", "o"+o.mode
		if !o.in[0].elem.Float() {
			name, mode = "arith.cmpi", "s"+o.mode
			if o.mode == "eq" {
				mode = "eq"
			}
		}
		return fmt.Sprintf("%s %s, %s : %s", name, mode, names(o.in), o.in[0].mlir())
	case "select":
		if len(o.in[0].shape) == 0 {
			return fmt.Sprintf("arith.select %s : %s", names(o.in), o.in[1].mlir())
		}
		return fmt.Sprintf("arith.select %s : %s, %s", names(o.in), o.in[0].mlir(), o.in[1].mlir())
	case "exp2", "log2":
		return fmt.Sprintf("math.%s %s : %s", o.code, from, o.in[0].mlir())
	case "convert":
		return fmt.Sprintf("%s %s : %s to %s", conversion(o.in[0].elem, o.out[0].elem), from, o.in[0].mlir(),
			o.out[0].mlir())
	case "reduce":
		e := o.in[0].elem
		return fmt.Sprintf("\"tt.reduce\"(%s) <{axis = %d : i32}> ({\n%s^bb0(%%a: %s, %%b: %s):\n"+
			"%s  %%c = %s %%a, %%b : %s\n%s  tt.reduce.return %%c : %s\n%s}) : (%s) -> %s", from, o.ints[0], indent,
			e, e, indent, binaries[o.mode][0], e, indent, e, indent, o.in[0].mlir(), o.out[0].mlir())
	case "dot":
		return fmt.Sprintf("tt.dot %s, inputPrecision = %s : %s * %s -> %s", names(o.in), o.mode, o.in[0].mlir(),
			o.in[1].mlir(), o.out[0].mlir())
	}
	panic("triton: no text for " + o.code)
}

func conversion(from, to Elem) string {
	switch {
	case from == BF16 && to == F32:
		return "arith.extf"
	case from == F32 && to == BF16:
		return "arith.truncf"
	case from == I32 && to == I64:
		return "arith.extsi"
	case from == I64 && to == I32:
		return "arith.trunci"
	case from == I1 && to.Float():
		return "arith.uitofp"
	case !from.Float() && to.Float():
		return "arith.sitofp"
	}
	panic(fmt.Sprintf("triton: no conversion from %s to %s", from, to))
}

func writeLoop(b *strings.Builder, o op, indent string) {
	carried := o.in[3:]
	if len(carried) > 0 {
		fmt.Fprintf(b, "%%%d:%d = ", o.out[0].id, len(o.out))
	}
	fmt.Fprintf(b, "scf.for %s = %s to %s step %s ", o.vars[0].name(), o.in[0].name(), o.in[1].name(), o.in[2].name())
	if len(carried) > 0 {
		var pairs []string
		for i, c := range carried {
			pairs = append(pairs, o.vars[i+1].name()+" = "+c.name())
		}
		fmt.Fprintf(b, "iter_args(%s) -> (%s) ", strings.Join(pairs, ", "), types(carried))
	}
	b.WriteString(" : i32 {\n")
	writeOps(b, o.body, indent+"  ")
	if len(carried) > 0 {
		fmt.Fprintf(b, "%s  scf.yield %s : %s\n", indent, names(o.end), types(carried))
	}
	b.WriteString(indent + "}")
}
