// Checks the manifests of a folder as an API server would that is asked to create them: builds them as 'kubectl apply
// -k' does, decodes them strictly, fills in defaults, validates them by Kubernetes' own functions, and holds their pods
// against the strictest of the Pod Security Standards. What no API server checks is checked, too: that services, budgets
// and network policies choose pods that exist, that ports have the names by which they are called, and that every
// ConfigMap and Secret is there or is made by the steps of the README.
//
//	check-kubernetes FOLDER
//
// Exit code 1: something is wrong; each finding is a line.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	v1 "k8s.io/api/core/v1"
)

// The pods of one workload.
type workload struct {
	name     string
	template *core.PodTemplateSpec
}

type manifests struct {
	workloads  []workload
	services   []*core.Service
	budgets    []*policy.PodDisruptionBudget
	networks   []*networking.NetworkPolicy
	configMaps map[string]bool
	headless   map[string]bool
	findings   []string
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check-kubernetes FOLDER")
		os.Exit(2)
	}
	count, findings, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "check-kubernetes: %v\n", err)
		os.Exit(1)
	}
	for _, finding := range findings {
		fmt.Fprintln(os.Stderr, finding)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%d manifests are as an API server takes them\n", count)
}

func check(folder string) (int, []string, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return 0, nil, err
	}
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		return 0, nil, err
	}
	all := manifests{configMaps: map[string]bool{}, headless: map[string]bool{}}
	decoder := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDecoder()
	for _, resource := range built.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return 0, nil, err
		}
		name := resource.GetKind() + " " + resource.GetName()
		object, err := runtime.Decode(decoder, text)
		if err != nil {
			all.add(name, err.Error())
			continue
		}
		all.take(name, object)
	}
	all.checkPods()
	all.checkReferences(string(readme))
	return len(built.Resources()), all.findings, nil
}

func (all *manifests) add(name, what string) {
	all.findings = append(all.findings, name+": "+what)
}

func (all *manifests) addErrors(name string, errors field.ErrorList) {
	for _, err := range errors {
		all.add(name, err.Error())
	}
}

// Validates an object by itself, and keeps it for what concerns several.
func (all *manifests) take(name string, object runtime.Object) {
	options := corevalidation.PodValidationOptions{}
	switch object := object.(type) {
	case *apps.StatefulSet:
		all.addErrors(name, appsvalidation.ValidateStatefulSet(object, options))
		all.addErrors(name, corevalidation.ValidatePodTemplateSpec(podOf(object), field.NewPath("pod"), options))
		all.workloads = append(all.workloads, workload{name, &object.Spec.Template})
		all.headless[object.Spec.ServiceName] = true
	case *apps.Deployment:
		all.addErrors(name, appsvalidation.ValidateDeployment(object, options))
		all.workloads = append(all.workloads, workload{name, &object.Spec.Template})
	case *core.Service:
		// The API server does so before it validates; it allocates the addresses of other services itself.
		if object.Spec.ClusterIP != "" {
			object.Spec.ClusterIPs = []string{object.Spec.ClusterIP}
		}
		all.addErrors(name, corevalidation.ValidateService(object))
		all.services = append(all.services, object)
	case *core.ConfigMap:
		all.addErrors(name, corevalidation.ValidateConfigMap(object))
		all.configMaps[object.Name] = true
	case *policy.PodDisruptionBudget:
		all.addErrors(name, policyvalidation.ValidatePodDisruptionBudget(object, policyvalidation.PodDisruptionBudgetValidationOptions{}))
		all.budgets = append(all.budgets, object)
	case *networking.NetworkPolicy:
		all.addErrors(name, networkingvalidation.ValidateNetworkPolicy(object, networkingvalidation.NetworkPolicyValidationOptions{}))
		all.networks = append(all.networks, object)
	default:
		all.add(name, "this check does not know the kind: teach it, or nothing says whether the manifest is right")
	}
}

// What the controller makes pods of: an API server looks at that only when it does, much too late for this check.
func podOf(set *apps.StatefulSet) *core.PodTemplateSpec {
	template := set.Spec.Template.DeepCopy()
	for _, claim := range set.Spec.VolumeClaimTemplates {
		source := core.VolumeSource{PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}
		template.Spec.Volumes = append(template.Spec.Volumes, core.Volume{Name: claim.Name, VolumeSource: source})
	}
	return template
}

// The strictest of the Pod Security Standards.
func (all *manifests) checkPods() {
	evaluator, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks())
	if err != nil {
		all.add("Pod Security Standards", err.Error())
		return
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, workload := range all.workloads {
		var template v1.PodTemplateSpec
		if err := corev1.Convert_core_PodTemplateSpec_To_v1_PodTemplateSpec(workload.template, &template, nil); err != nil {
			all.add(workload.name, err.Error())
			continue
		}
		for _, result := range evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec) {
			if !result.Allowed {
				all.add(workload.name, "not restricted: "+result.ForbiddenReason+": "+result.ForbiddenDetail)
			}
		}
	}
}

// What one manifest says of another.
func (all *manifests) checkReferences(readme string) {
	for _, service := range all.services {
		name := "Service " + service.Name
		chosen := all.chosen(name, labels.SelectorFromSet(service.Spec.Selector))
		for _, port := range service.Spec.Ports {
			all.checkPort(name, chosen, port.TargetPort)
		}
		if service.Spec.ClusterIP == core.ClusterIPNone {
			delete(all.headless, service.Name)
		}
	}
	for name := range all.headless {
		all.add("StatefulSet", "there is no headless service "+name)
	}
	for _, budget := range all.budgets {
		all.chosenBy("PodDisruptionBudget "+budget.Name, budget.Spec.Selector)
	}
	for _, network := range all.networks {
		name := "NetworkPolicy " + network.Name
		chosen := all.chosenBy(name, &network.Spec.PodSelector)
		for _, rule := range network.Spec.Ingress {
			for _, port := range rule.Ports {
				all.checkPort(name, chosen, *port.Port)
			}
			for _, from := range rule.From {
				if from.PodSelector != nil && from.NamespaceSelector == nil {
					all.chosenBy(name, from.PodSelector)
				}
			}
		}
	}
	for _, workload := range all.workloads {
		all.checkConfiguration(workload, readme)
	}
}

func (all *manifests) chosenBy(name string, selector *metav1.LabelSelector) []workload {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		all.add(name, err.Error())
		return nil
	}
	return all.chosen(name, parsed)
}

func (all *manifests) chosen(name string, selector labels.Selector) []workload {
	var found []workload
	for _, workload := range all.workloads {
		if selector.Matches(labels.Set(workload.template.Labels)) {
			found = append(found, workload)
		}
	}
	if len(found) == 0 {
		all.add(name, "chooses no pod: "+selector.String())
	}
	return found
}

func (all *manifests) checkPort(name string, chosen []workload, port intstr.IntOrString) {
	for _, workload := range chosen {
		if !hasPort(workload.template, port) {
			all.add(name, workload.name+" has no port "+port.String())
		}
	}
}

func hasPort(template *core.PodTemplateSpec, wanted intstr.IntOrString) bool {
	for _, container := range template.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == wanted.StrVal || port.ContainerPort == wanted.IntVal {
				return true
			}
		}
	}
	return false
}

// Every ConfigMap is here, or optional; every Secret and what is optional is made by a step of the README, key by key.
func (all *manifests) checkConfiguration(workload workload, readme string) {
	spec := &workload.template.Spec
	for _, volume := range spec.Volumes {
		if volume.ConfigMap != nil && !all.configMaps[volume.ConfigMap.Name] {
			all.add(workload.name, "there is no ConfigMap "+volume.ConfigMap.Name)
		}
		if volume.Secret != nil {
			all.checkStep(workload, readme, "create secret generic "+volume.Secret.SecretName)
		}
	}
	for _, container := range spec.Containers {
		for _, variable := range container.Env {
			if strings.HasPrefix(variable.Value, "/etc/synod/secrets/") {
				all.checkStep(workload, readme, "--from-file="+filepath.Base(variable.Value)+"=")
			}
			from := variable.ValueFrom
			if from == nil {
				continue
			}
			if ref := from.ConfigMapKeyRef; ref != nil && !all.configMaps[ref.Name] {
				all.checkStep(workload, readme, "create configmap "+ref.Name+" --from-literal="+ref.Key+"=")
			}
			if ref := from.SecretKeyRef; ref != nil {
				all.checkStep(workload, readme, "create secret generic "+ref.Name)
				all.checkStep(workload, readme, "--from-file="+ref.Key+"=")
			}
		}
	}
}

func (all *manifests) checkStep(workload workload, readme, step string) {
	if !strings.Contains(readme, step) {
		all.add(workload.name, "no step of README.md has '"+step+"'")
	}
}
