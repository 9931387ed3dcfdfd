package main

import (
	_ "embed"
	"html/template"
)

//go:embed style.css
var style string

//go:embed site.js
var script string

//go:embed layout.html
var layoutText string

var layout = template.Must(template.New("page").Parse(layoutText))
