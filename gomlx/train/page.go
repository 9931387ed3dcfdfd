package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"path/filepath"
	"slices"

	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/localfile"
)

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>
` + figure.Page + `.page { max-width: 50rem }
</style></head><body><main class="page">
<h1>{{.Title}}</h1>
<p>{{.Summary}}</p>
{{range .Figures}}<figure>{{.}}</figure>
{{end}}<h2>Settings</h2>
<pre tabindex="0">{{.Settings}}</pre>
</main></body></html>
`))

// page draws the metrics of a run as a page of figures, if there are any.
func (r Run) page(t *Trainer) error {
	all, err := ReadMetrics(filepath.Join(r.Dir, MetricsFile))
	if err != nil || len(all) == 0 {
		return err
	}
	var loss, held, right, norm figure.Series
	loss.Name, held.Name, right.Name, norm.Name = "training", "held out", "held out", "gradient"
	point := func(s *figure.Series, step int, y float64) {
		if !math.IsNaN(y) && !math.IsInf(y, 0) {
			s.X, s.Y = append(s.X, float64(step)), append(s.Y, y)
		}
	}
	for _, m := range all {
		point(&loss, m.Step, m.Loss)
		if m.Held != nil {
			point(&held, m.Step, *m.Held)
			point(&right, m.Step, *m.Accuracy)
		}
		point(&norm, m.Step, m.Norm)
	}
	steps := figure.Axis{Label: "steps"}
	var figures []template.HTML
	for _, f := range []*figure.Figure{
		{Title: "Loss", X: steps, Y: figure.Axis{Label: "nats per prediction", Log: wide(loss, held)},
			Series: []figure.Series{loss, held}},
		{Title: "Accuracy", X: steps, Y: figure.Axis{Label: "part that is right"}, Series: []figure.Series{right}},
		{Title: "Norm of the gradient before clipping", X: steps, Y: figure.Axis{Label: "norm", Log: wide(norm)},
			Series: []figure.Series{norm}},
	} {
		f.Series = slices.DeleteFunc(f.Series, func(s figure.Series) bool { return len(s.X) == 0 })
		if len(f.Series) == 0 {
			continue
		}
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
	for _, m := range all {
		if m.Held != nil {
			page.Summary = fmt.Sprintf("After %d of %d steps, held out: %s.", m.Step, t.Config.Steps,
				report(t.Model, *m.Held, *m.Accuracy))
		}
	}
	if t.Done() < t.Config.Steps {
		page.Summary += fmt.Sprintf(" The run stopped at step %d.", t.Done())
	}
	out, err := localfile.Create(filepath.Join(r.Dir, PageFile))
	if err != nil {
		return err
	}
	defer out.Abort()
	if err := pageTemplate.Execute(out, page); err != nil {
		return err
	}
	return out.Commit()
}

// wide reports whether the values span more than a factor of 10, so that a logarithmic axis is needed.
func wide(all ...figure.Series) bool {
	low, high := math.Inf(1), 0.0
	for _, s := range all {
		for _, y := range s.Y {
			low, high = min(low, y), max(high, y)
		}
	}
	return low > 0 && high > 10*low
}
