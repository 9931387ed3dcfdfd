package advise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// The code of every candidate compiles: all of it in one file that only the compiler sees.
func TestCodeCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	s := &study{dim: 4}
	var b strings.Builder
	b.WriteString("package pasted\n\n")
	for _, path := range []string{"", "/attention", "/attention/choose", "/coupling", "/dense", "/family", "/kernel"} {
		fmt.Fprintf(&b, "import %q\n", "github.com/randfeat/randfeat"+path)
	}
	n := 0
	for at, v := range s.varieties() {
		for i, c := range s.couplings() {
			if at > 0 && i > 1 {
				break // every family, every coupling
			}
			spec := randfeat.Spec{Kernel: kernel.Attention(4), Family: v.family, Coupling: c, Dim: 4, M: 8}
			if i > 0 {
				spec.Kernel = kernel.Kernel{Scale: 0.3}
			}
			args := "queries, keys"
			if i > 0 {
				args = "rows"
			}
			fmt.Fprintf(&b, "\nfunc f%d(%s dense.Matrix[float64]) error {\n", n, args)
			b.WriteString(code(spec, v.family, v.fits, i > 0))
			b.WriteString("\t_ = m\n\treturn err\n}\n")
			n++
		}
	}
	marks := family.Nystrom{N: 16, Seed: 3}
	fmt.Fprintf(&b, "\nfunc n(rows dense.Matrix[float64]) error {\n%s\t_ = m\n\treturn err\n}\n",
		code(randfeat.Spec{Family: marks, Coupling: coupling.IID{}, Dim: 4, M: 1}, marks, true, true))
	for i, causal := range []bool{false, true} {
		fmt.Fprintf(&b, "\nfunc a%d(q, k, v attention.Seq[float32]) error {\n%s\t_ = a\n\treturn err\n}\n", i,
			attentionCode(0.1, causal, 1))
	}
	file := filepath.Join(t.TempDir(), "pasted.go")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "vet", file) // which checks types, and does not compile generic code anew
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%d candidates: %v\n%s", n, err, out)
	}
}
