package triton_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/gomlx/triton"
)

var update = flag.Bool("update", false, "write testdata")

// every uses every operation of the package: with n rows, y_i = Σ_j exp2(min(x_ij, 4))·x_ij where that is positive.
func every() *triton.Kernel {
	k := triton.New("every")
	x, w, y := k.Arg("x", triton.BF16), k.Arg("w", triton.F32), k.Arg("y", triton.F32)
	at := k.Range(16).Add(k.Program(0).Mul(k.Int(16)))
	there := at.Less(k.Int(20)).And(k.Int(-1).Less(at))
	cols := k.Range(16)
	start := []triton.Value{k.Zeros(16, 16), k.Full(-1e9, 16)}
	to := k.Int(32).Div(k.Int(2)).Rem(k.Int(17))
	end := k.Loop(k.Int(0), to, k.Int(16), start, func(i triton.Value, c []triton.Value) []triton.Value {
		base := x.At(i.To(triton.I64))
		m := k.Load(base.At(at.Column().Times(16).Add(cols.Row())), there.Column())
		wide := m.To(triton.F32)
		scores := m.Dot(m.T(), triton.Full, c[0])
		return []triton.Value{scores.Where(scores.Greater(k.Float(-100)), k.Float(0)), wide.Most(1).Max(c[1])}
	})
	weights := k.Load(w.At(cols)).Plus(1).Log2().Exp2()
	sum := end[0].Mul(weights.Row()).Sub(end[1].Column()).Min(k.Float(1e6)).Sum(1).Div(k.Float(2))
	same := cols.Equal(cols).To(triton.F32).Mul(cols.LessEqual(cols).To(triton.F32))
	k.Store(y.At(at), sum.Mul(same), there)
	return k
}

// The text of a kernel is what XLA reads.
func TestText(t *testing.T) {
	path := filepath.Join("testdata", "every.mlir")
	got := every().Text()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("the text is not that of %s (%v); -update writes it", path, err)
	}
}

// parse reads MLIR modules from files with jaxlib's bindings.
const parse = `
import sys
from jaxlib.mlir import ir
from jaxlib.triton import dialect
for name in sys.argv[1:]:
    with ir.Context() as c, ir.Location.unknown():
        dialect.register_dialect(c)
        ir.Module.parse(open(name).read()).operation.verify()
`

// Triton's dialect accepts the text, where Python has jaxlib.
func TestDialectAcceptsText(t *testing.T) {
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "from jaxlib.triton import dialect").Run(); err != nil {
		t.Skipf("no jaxlib for %s: pip install jaxlib, and name that Python in $PYTHON", python)
	}
	files, err := filepath.Glob("../*/testdata/*.mlir")
	if err != nil || len(files) == 0 {
		t.Fatalf("no texts: %v", err)
	}
	if out, err := exec.Command(python, append([]string{"-c", parse}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRun(t *testing.T) {
	x := triton.NewBuffer(triton.BF16, 320)
	w, y := triton.NewBuffer(triton.F32, 16), triton.NewBuffer(triton.F32, 20)
	data := make([]float64, 320)
	for i := range data {
		data[i] = float64(i%7) - 3
	}
	x.Fill(data)
	if err := every().Run([3]int{2, 1, 1}, x, w, y); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 5, 16, 19} {
		top, want := -1e9, 0.0
		for j := range 16 {
			top = max(top, data[i*16+j])
		}
		for j := range 16 { // rows of the same program
			s := 0.0
			for c := range 16 {
				if r := i/16*16 + j; r < 20 {
					s += data[i*16+c] * data[r*16+c]
				}
			}
			if s <= -100 {
				s = 0
			}
			want += (s - top) / 2
		}
		if y.Data[i] != want {
			t.Errorf("row %d: %v, want %v", i, y.Data[i], want)
		}
	}
}

// A kernel without a meaning is an error: numbers outside of a buffer, and two stores to one number.
func TestRunFindsErrors(t *testing.T) {
	for name, at := range map[string]func(k *triton.Kernel) triton.Value{
		"reads number 16":       func(k *triton.Kernel) triton.Value { return k.Range(32) },
		"writes number 0 again": func(k *triton.Kernel) triton.Value { return k.Range(16).Mul(k.Int(0)) },
	} {
		k := triton.New("wrong")
		x, y := k.Arg("x", triton.F32), k.Arg("y", triton.F32)
		i := at(k)
		k.Store(y.At(i), k.Load(x.At(i)))
		err := k.Run([3]int{1, 1, 1}, triton.NewBuffer(triton.F32, 16), triton.NewBuffer(triton.F32, 32))
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "kernel wrong") {
			t.Errorf("error %v does not say %q", err, name)
		}
	}
}

// Shapes that do not fit panic when the kernel is built, and name it.
func TestShapesAreChecked(t *testing.T) {
	for name, build := range map[string]func(k *triton.Kernel){
		"sum":      func(k *triton.Kernel) { k.Zeros(16).Add(k.Zeros(32)) },
		"rank":     func(k *triton.Kernel) { k.Zeros(16).Add(k.Zeros(16, 16)) },
		"types":    func(k *triton.Kernel) { k.Zeros(16).Add(k.Range(16)) },
		"power":    func(k *triton.Kernel) { k.Zeros(12) },
		"product":  func(k *triton.Kernel) { k.Zeros(16, 32).Dot(k.Zeros(16, 16), triton.TF32) },
		"small":    func(k *triton.Kernel) { k.Zeros(8, 16).Dot(k.Zeros(16, 16), triton.TF32) },
		"store":    func(k *triton.Kernel) { k.Store(k.Arg("y", triton.BF16).At(k.Range(16)), k.Zeros(16)) },
		"mask":     func(k *triton.Kernel) { k.Load(k.Arg("y", triton.F32), k.Zeros(16)) },
		"axis":     func(k *triton.Kernel) { k.Zeros(16).Sum(1) },
		"exponent": func(k *triton.Kernel) { k.Range(16).Exp2() },
		"carried": func(k *triton.Kernel) {
			half := func(_ triton.Value, c []triton.Value) []triton.Value {
				return []triton.Value{c[0].To(triton.BF16)}
			}
			k.Loop(k.Int(0), k.Int(2), k.Int(1), []triton.Value{k.Zeros(16)}, half)
		},
	} {
		func() {
			defer func() {
				if r, _ := recover().(string); !strings.Contains(r, "kernel named") {
					t.Errorf("%s: it says %q", name, r)
				}
			}()
			build(triton.New("named"))
		}()
	}
}

// The configuration is the text of an MLIR dictionary: no quote or line break of the kernel may end a string.
func TestConfig(t *testing.T) {
	c := triton.Launch{Kernel: every(), Grid: [3]int{2, 1, 1}, Warps: 4, Stages: 3}.Config()
	if strings.Contains(c, "\n") || strings.Count(c, `"`) != 4 || strings.Contains(c, "mhlo") {
		t.Errorf("%.300s", c)
	}
	for _, want := range []string{`name = "every"`, "num_warps = 4 : i32", "num_stages = 3 : i32", "grid_x = 2 : i32"} {
		if !strings.Contains(c, want) {
			t.Errorf("no %s in %.100s", want, c)
		}
	}
}
