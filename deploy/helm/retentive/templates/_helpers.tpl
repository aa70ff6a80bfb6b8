{{- define "retentive.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* Labels of the pods of the server only, which the selectors use: the jobs have another component. */}}
{{- define "retentive.server" -}}
{{ include "retentive.labels" . }}
app.kubernetes.io/component: server
{{- end }}
{{- define "retentive.name" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- define "retentive.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- define "retentive.claim" -}}
{{ .Values.persistence.existingClaim | default (include "retentive.name" .) }}
{{- end }}
{{- define "retentive.account" -}}
{{ .Values.serviceAccount.name | default (ternary (include "retentive.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}
{{- define "retentive.pod" -}}
serviceAccountName: {{ include "retentive.account" . }}
automountServiceAccountToken: false
enableServiceLinks: false # they would set variables that look like settings
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- define "retentive.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: ["ALL"]}
image: {{ include "retentive.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- if or .Values.locationSecret .Values.envFrom }}
envFrom:
  {{- with .Values.locationSecret }}
  - secretRef: {name: {{ . }}}
  {{- end }}
  {{- with .Values.envFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
{{- /* Environment of all containers. */}}
{{- define "retentive.env" -}}
{{- if .Values.persistence.enabled }}
- {name: RETENTIVE_AT, value: "sqlite:////var/lib/retentive/memory.db"}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- /* Volumes of all containers. */}}
{{- define "retentive.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.persistence.enabled }}
- {name: memory, mountPath: /var/lib/retentive}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- define "retentive.volumes" -}}
- {name: tmp, emptyDir: {sizeLimit: {{ .Values.tmpSize }}}}
{{- if .Values.persistence.enabled }}
- {name: memory, persistentVolumeClaim: {claimName: {{ include "retentive.claim" . }}}}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
