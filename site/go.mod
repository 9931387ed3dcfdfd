module github.com/randfeat/randfeat/site

go 1.26.0

require (
	github.com/randfeat/randfeat v0.1.0
	github.com/yuin/goldmark v1.8.7
)
