package main

// The four parts of the site, in the order of the navigation.
const (
	tutorials  = "Tutorials"
	howto      = "How-to"
	reference  = "Reference"
	background = "Background"
)

var parts = []string{tutorials, howto, reference, background}

// page is one page of the site.
type page struct {
	part, group string // place in the navigation; the start page has no part
	title       string
	source      string // Markdown file in the repository, by which other pages link to it
	path        string // in the site
	markdown    []byte // text of a generated page; nil: read source
	html        string // body of a page that is not Markdown
	frame       string // another file of the site, shown live below the text
	// sections are the headings of the source that this page has; without any, those that no other page has.
	sections []string
}

// listed are the pages written by hand. A new page of docs needs a line here.
var listed = []page{
	{title: "randfeat", source: "site/content/index.md", path: "index.html"},

	{part: tutorials, title: "Ten minutes to a served model", source: "docs/start.md", path: "tutorials/start.html"},
	{part: tutorials, title: "A model from a real table", source: "site/content/table.md",
		path: "tutorials/table.html"},
	{part: tutorials, title: "Attention on a real model's heads", source: "site/content/heads.md",
		path: "tutorials/heads.html"},
	{part: tutorials, title: "Choosing an estimator", source: "site/content/estimator.md",
		path: "tutorials/estimator.html"},
	{part: tutorials, title: "Training a small Transformer", source: "site/content/transformer.md",
		path: "tutorials/transformer.html"},
	{part: tutorials, title: "Many files, many machines", source: "site/content/machines.md",
		path: "tutorials/machines.html"},

	{part: howto, title: "Models from tables", source: "docs/machines.md", path: "howto/machines.html"},
	{part: howto, title: "How a fit chooses", source: "docs/machines.md", path: "howto/choices.html",
		sections: []string{"How choices are made", "Columns of many levels"}},
	{part: howto, title: "Scores and intervals", source: "docs/machines.md", path: "howto/scores.html",
		sections: []string{"Scores"}},
	{part: howto, title: "Memory, checkpoints, serving", source: "docs/machines.md", path: "howto/serving.html",
		sections: []string{"Memory", "Checkpoints", "Model file", "Serving"}},
	{part: howto, title: "Tables: worked examples", source: "docs/tables.md", path: "howto/tables.html"},
	{part: howto, title: "Watching a model", source: "docs/watch.md", path: "howto/watch.html"},
	{part: howto, title: "Attention", source: "docs/attention.md", path: "howto/attention.html"},
	{part: howto, title: "Choose an estimator", source: "docs/advise.md", path: "howto/advise.html"},
	{part: howto, title: "Beyond one machine", source: "docs/scale.md", path: "howto/scale.html"},
	{part: howto, title: "Softmax sampling", source: "docs/sampling.md", path: "howto/sampling.html"},
	{part: howto, title: "Pretrained models", source: "docs/models.md", path: "howto/models.html"},
	{part: howto, title: "Python", source: "docs/python.md", path: "howto/python.html"},
	{part: howto, title: "GoMLX: GPUs and training", source: "gomlx/README.md", path: "howto/gomlx.html"},
	{part: howto, title: "Training from scratch", source: "repro/training/README.md", path: "howto/training.html"},
	{part: howto, title: "Apache Beam", source: "beam/README.md", path: "howto/beam.html"},
	{part: howto, title: "Contribute", source: "CONTRIBUTING.md", path: "howto/contributing.html"},
	{part: howto, title: "A fit in ten functions", source: "docs/fit.md", path: "howto/fit.html"},

	{part: reference, title: "Families and couplings", source: "docs/estimators.md", path: "reference/estimators.html"},
	{part: reference, title: "Model files", source: "docs/modelfile.md", path: "reference/modelfile.html"},
	{part: reference, title: "JSON output", source: "docs/json.md", path: "reference/json.html"},
	{part: reference, title: "Changelog", source: "CHANGELOG.md", path: "reference/changelog.html"},

	{part: background, title: "Theory", source: "docs/theory.md", path: "background/theory.html"},
	{part: background, title: "The laboratory", source: "repro/README.md", path: "background/laboratory.html"},
	{part: background, title: "Verdicts on five papers", source: "repro/RESULTS.md", path: "background/verdicts.html"},
	{part: background, title: "The explorer, live", source: "site/content/explorer.md",
		path: "background/explorer.html", frame: "explorer.html"},
	{part: background, title: "Benchmarks", source: "bench/RESULTS.md", path: "background/benchmarks.html"},
	{part: background, title: "Attention, measured", source: "docs/attention-measured.md",
		path: "background/attention.html"},
	{part: background, title: "Tables, measured", source: "bench/TABLES.md", path: "background/tables.html"},
	{part: background, title: "Attention on real heads", source: "bench/HEADS.md", path: "background/heads.html"},
	{part: background, title: "Sampling, measured", source: "bench/SAMPLING.md", path: "background/sampling.html"},
}
