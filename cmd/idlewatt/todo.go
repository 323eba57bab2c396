package main

import (
	"fmt"
	"net/http"
)

type reportCmd struct{}
type alertCmd struct{}
type docsCmd struct{}

func (reportCmd) Run(e *env) error { return fmt.Errorf("x") }
func (alertCmd) Run(e *env) error  { return fmt.Errorf("x") }
func (docsCmd) Run(e *env) error   { return fmt.Errorf("x") }

func (a *app) page(l *loaded) http.Handler { return http.NotFoundHandler() }
