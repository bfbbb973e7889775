{{- define "fanin.name" -}}
{{- printf "%s-%s" .Release.Name .Values.device.kind | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "fanin.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .Values.device.kind }}
{{- end }}
