package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One price that is none and one date that is none do not keep a table from being fitted, in cross-validation either;
// --strict refuses them with file and line, in one process and by parts.
func TestUncleanTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	b.WriteString("price,day,a,y\n")
	for i := range 120 {
		p, a := 1+20*r.Float64(), r.NormFloat64()
		price, day := fmt.Sprintf("$%.2f", p), fmt.Sprintf("2023-%02d-%02d", 1+r.IntN(12), 1+r.IntN(28))
		switch i {
		case 40:
			price = "free"
		case 80:
			day = "someday"
		case 81:
			day = "0000-00-00"
		}
		fmt.Fprintf(&b, "%s,%s,%.3f,%.3f\n", price, day, a, p+a)
	}
	dir := t.TempDir()
	table, out := filepath.Join(dir, "t.csv"), filepath.Join(dir, "m.rf")
	if err := os.WriteFile(table, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"fit", table, "--target", "y", "-o", out, "--folds", "3", "--features", "64", "--map", "random"}
	told := ok(t, args...)
	for _, want := range []string{`the first is "free" at ` + table + ":42",
		`the first is "someday" at ` + table + ":82"} {
		if !strings.Contains(told.stdout+told.stderr, want) {
			t.Errorf("%s%s, want %s", told.stdout, told.stderr, want)
		}
	}
	fails(t, 1, `t.csv:42: column "price" is "free", where 119 other values are numbers`, append(args, "--strict")...)
	fails(t, 1, `t.csv:42: column "price" is "free"`, "parts", "fit", table, "--target", "y", "-o", out+"2", "--strict")
	told = ok(t, "predict", out, table, "-o", filepath.Join(dir, "p.csv"))
	if !strings.Contains(told.stderr, `1 value unreadable (want a number such as 1,234.5), taken for missing; the first is "free"`) {
		t.Errorf("%s", told.stderr)
	}
	fails(t, 1, `t.csv:42: column "price" is "free", want a number`, "predict", out, table, "-o",
		filepath.Join(dir, "q.csv"), "--strict")
}
