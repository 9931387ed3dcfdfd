package tables

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
)

func TestProgressOfRows(t *testing.T) {
	for stage, want := range map[string]string{"fit": "fit 4  2.0 rows/s", "choose": "choose 4  2.0 trials/s",
		"steps": "steps 4  2.0 steps/s"} {
		if got := fitStage(new(cli.Env), stage).Line(4, 2*time.Second); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if n := stageTotal("choose", 21); n != 0 {
		t.Errorf("the total of a search is %d, want none", n)
	}
	if n := stageTotal("score", 21); n != 21 {
		t.Errorf("the total of a stage is %d, want 21", n)
	}
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := "id,x,y\n"
	for i := range 20_000 { // ids grow by four digits
		text += fmt.Sprintf("%d,%.3f,%.3f\n", i, float64(i%97)/97, float64(i%89)/89)
	}
	if n := estimateRows([]string{put("t.csv", text)}, "csv"); math.Abs(float64(n)-20_000) > 1000 {
		t.Errorf("%d rows estimated, want about 20000", n)
	}
	of := func(path, format string) int { return estimateRows([]string{path}, format) }
	if of(filepath.Join(dir, "t.csv"), "npy")+of("-", "csv")+of(dir, "csv")+of(put("e.csv", ""), "csv") != 0 {
		t.Error("rows estimated where there is no telling")
	}
}
