module github.com/randfeat/randfeat/site

go 1.26.0

require (
	github.com/randfeat/randfeat v0.1.0
	github.com/yuin/goldmark v1.8.7
)

require (
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)
