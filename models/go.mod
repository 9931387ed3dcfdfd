module github.com/randfeat/randfeat/models

go 1.26.0

require (
	github.com/randfeat/randfeat v0.1.0
	golang.org/x/text v0.40.0
)
