package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"path/filepath"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/figure"
)

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2em auto; padding: 0 1em }
svg { max-width: 100%; height: auto }
pre { overflow-x: auto; font-size: 13px }
</style></head><body>
<h1>{{.Title}}</h1>
<p>{{.Summary}}</p>
{{range .Figures}}<figure>{{.}}</figure>
{{end}}<h2>Settings</h2>
<pre>{{.Settings}}</pre>
</body></html>
`))

// page draws the metrics of a run.
func (r Run) page(t *Trainer) error {
	all, err := ReadMetrics(filepath.Join(r.Dir, MetricsFile))
	if err != nil {
		return err
	}
	var loss, held, norm figure.Series
	loss.Name, held.Name, norm.Name = "training", "held out", "gradient"
	point := func(s *figure.Series, step int, y float64) {
		if !math.IsNaN(y) && !math.IsInf(y, 0) {
			s.X, s.Y = append(s.X, float64(step)), append(s.Y, y)
		}
	}
	for _, m := range all {
		point(&loss, m.Step, m.Loss)
		if m.Held != nil {
			point(&held, m.Step, *m.Held)
		}
		point(&norm, m.Step, m.Norm)
	}
	series := []figure.Series{loss}
	if len(held.X) > 0 {
		series = append(series, held)
	}
	steps := figure.Axis{Label: "steps"}
	var figures []template.HTML
	for _, f := range []*figure.Figure{
		{Title: "Loss", X: steps, Y: figure.Axis{Label: "nats per prediction"}, Series: series},
		{Title: "Norm of the gradient before clipping", X: steps, Y: figure.Axis{Label: "norm"},
			Series: []figure.Series{norm}},
	} {
		var b bytes.Buffer
		if err := f.WriteSVG(&b); err != nil {
			return err
		}
		figures = append(figures, template.HTML(b.String())) //nolint:gosec // of our own making
	}
	settings, err := json.MarshalIndent(map[string]any{"model": t.Model, "training": t.Config}, "", "  ")
	if err != nil {
		return err
	}
	page := struct {
		Title, Summary, Settings string
		Figures                  []template.HTML
	}{Title: fmt.Sprint(t.Model), Settings: string(settings), Figures: figures}
	if n := len(all); n > 0 && all[n-1].Held != nil {
		page.Summary = fmt.Sprintf("After %d steps, held out: %s.", all[n-1].Step,
			report(t.Model, *all[n-1].Held, *all[n-1].Accuracy))
	}
	out, err := data.CreateAtomic(filepath.Join(r.Dir, PageFile))
	if err != nil {
		return err
	}
	defer out.Abort()
	if err := pageTemplate.Execute(out, page); err != nil {
		return err
	}
	return out.Commit()
}
